/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a path as a file:// URL. A store's name that contains '|' names a chain, so a path with a
 * '|' in it must be escaped.
 */
#pragma once

#include "base/text.h"

/* Appends "file://" and the path, with every character escaped that has a meaning in a URL.
 * Returns KILN_OK or KILN_E_NO_MEMORY; after a failure a part of the URL may have been appended. */
kiln_status kilni_file_url_append(kilni_text *url, const char *path);
