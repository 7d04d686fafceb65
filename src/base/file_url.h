/* SPDX-License-Identifier: Apache-2.0
 *
 * The URL of a directory whose name may have any character. As it stands, a path with a '|' in it
 * is a chain of stores.
 */
#pragma once

#include "base/text.h"

/* Appends "file://" and the path, escaped where a character doesn't mean itself in a URL.
 * Returns KILN_OK; KILN_E_NO_MEMORY, and then a part of it may be there. */
kiln_status kilni_file_url_append(kilni_text *url, const char *path);
