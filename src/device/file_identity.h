/* SPDX-License-Identifier: Apache-2.0
 *
 * An identity is a line of text that distinguishes a build of a file from its other builds:
 * "build-id:…", or the size with a digest. If the content is at most 1 MiB, the digest covers all
 * of it. Otherwise, the digest covers 64 evenly spaced pages, including the first and the last.
 */
#pragma once

#include <link.h>

#include <kiln/status.h>

#include "base/text.h"

/* Appends the identity of a file on disk. Returns KILN_OK; KILN_E_UNSUPPORTED: the file cannot be
 * read; KILN_E_NO_MEMORY. */
kiln_status kilni_file_identity(const char *path, kilni_text *text);

/* Appends the identity of a loaded library that dl_iterate_phdr has reported. The identity is the
 * library's build-id. If the library has none, the identity is the size and a digest of its
 * read-only segments. It describes the file that was loaded, even if a different file has the same
 * name now. Returns KILN_OK; KILN_E_UNSUPPORTED: the library has neither a build-id nor read-only
 * segments; KILN_E_NO_MEMORY. */
kiln_status kilni_library_identity(const struct dl_phdr_info *library, kilni_text *text);

/* Appends only the build-id of a loaded library. Returns KILN_OK; KILN_MISS: the library has none;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_library_build_id(const struct dl_phdr_info *library, kilni_text *text);
