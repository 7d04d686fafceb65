/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of text that distinguishes one build of a file from another: "build-id:…", or the size
 * with a digest. The digest covers the whole content if it is at most 1 MiB, otherwise 64 evenly
 * spaced pages, including the first and the last.
 */
#pragma once

#include <link.h>

#include <kiln/status.h>

#include "base/text.h"

/* Appends the identity of a file on disk. Returns KILN_OK; KILN_E_UNSUPPORTED: it cannot be read;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_file_identity(const char *path, kilni_text *text);

/* Appends the identity of a loaded library, as dl_iterate_phdr shows it: its build-id or, if it has
 * none, the size and a digest of its read-only segments. The identity is that of the file that was
 * loaded, even if a different file has its name by now. Returns KILN_OK; KILN_E_UNSUPPORTED: it has
 * neither; KILN_E_NO_MEMORY. */
kiln_status kilni_library_identity(const struct dl_phdr_info *library, kilni_text *text);

/* Appends only the build-id of a loaded library. Returns KILN_OK; KILN_MISS: it has none;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_library_build_id(const struct dl_phdr_info *library, kilni_text *text);
