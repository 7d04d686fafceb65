/* SPDX-License-Identifier: Apache-2.0
 *
 * What tells one build of a file from another, as a line of text: "build-id:…", or size and digest
 * of the whole content up to 1 MiB, else of its size and 64 pages, evenly spread, with the first
 * and the last.
 */
#pragma once

#include <link.h>

#include <kiln/status.h>

#include "base/text.h"

/* Of a file on disk. KILN_OK; KILN_E_UNSUPPORTED: it can't be read; KILN_E_NO_MEMORY. */
kiln_status kilni_file_identity(const char *path, kilni_text *text);

/* Of a library in memory, as dl_iterate_phdr shows it: from its parts that can't be written, so
 * that it is the file that was loaded, also where another has its name by now.
 * KILN_OK; KILN_E_UNSUPPORTED: it has no such part; KILN_E_NO_MEMORY. */
kiln_status kilni_library_identity(const struct dl_phdr_info *library, kilni_text *text);

/* The build-id of a library in memory alone. KILN_OK; KILN_MISS: it has none; KILN_E_NO_MEMORY. */
kiln_status kilni_library_build_id(const struct dl_phdr_info *library, kilni_text *text);
