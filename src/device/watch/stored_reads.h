/* SPDX-License-Identifier: Apache-2.0
 *
 * The form in which an entry stores what a compilation read. It begins with a header. The reads
 * follow, in the order in which the compiler looked up the paths.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/bytes.h"
#include "base/text.h"
#include "device/watch/path_lookup.h"

enum { KILNI_READS_MAX = 16384 };

/* All members are borrowed. In a read to be stored, they belong to the caller. In a decoded read,
 * they point into the stored bytes. */
typedef struct kilni_stored_read {
    kilni_lookup lookup;
    kiln_finding what;
    bool is_relative; /* the path is relative to the folder of the program's name */
    const char *path;
    const char *target;          /* of a link */
    uint64_t size;               /* of a file, like the digest */
    const unsigned char *digest; /* KILNI_FILE_DIGEST_BYTES */
    uint32_t same; /* of a file or a folder: the index of the first read that led to the same one */
} kilni_stored_read;

/* @only_folder  the folder of the program's name, if the result is valid only there; "" if the name
 *               has no folder; NULL: the result is valid in any folder
 * @count        number of the reads that follow
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_stored_reads_append_header(kilni_text *to, const char *only_folder,
                                             uint32_t count);

/* Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_stored_reads_append(kilni_text *to, const kilni_stored_read *read);

/* Both return KILN_OK; KILN_E_CORRUPT. */
kiln_status kilni_stored_reads_decode_header(kilni_byte_reader *reader,
                                             const char **ret_only_folder, uint32_t *ret_count);
kiln_status kilni_stored_reads_decode_next(kilni_byte_reader *reader, kilni_stored_read *ret_read);
