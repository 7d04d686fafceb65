/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a path as a file:// URL. A location of a store that contains '|' is a chain, so a '|' in a
 * path must be escaped.
 */
#pragma once

#include "base/text.h"

/* Appends "file://" and the path. Escapes every byte of the path except ASCII letters and digits
 * and / - . _ ~. Returns KILN_OK or KILN_E_NO_MEMORY; after a failure, part of the URL might have
 * been appended. */
kiln_status kilni_file_url_append(kilni_text *url, const char *path);
