/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoding is little-endian. It begins with a u8 that is true if the result is valid in any
 * folder. If it is not, the folder of the program's name follows. Next come the count of reads,
 * u32, and the reads. Each read begins with the kind of look-up, u8; what was found, u8; whether
 * the path is relative to the folder of the name, u8; and the path. For a link, its target follows.
 * For a folder whose names were read, a digest of the names follows, as text. For a file, its size,
 * u64, and the BLAKE2b-256 of its content follow. For a file or a folder, the index, u32, of the
 * first read that led to the same one comes last.
 */
#include "device/watch/stored_reads.h"

#include "device/watch/encoding.h"

/* ---- encoding ---- */

kiln_status kilni_stored_reads_append_header(kilni_text *to, const char *only_folder,
                                             uint32_t count)
{
    kiln_status status = kilni_append_number(to, only_folder ? 0 : 1, 1);
    if (status == KILN_OK && only_folder) {
        status = kilni_append_text(to, only_folder);
    }
    return status == KILN_OK ? kilni_append_number(to, count, 4) : status;
}

static kiln_status append_lookup(kilni_text *to, const kilni_stored_read *read)
{
    kiln_status status = kilni_append_number(to, read->lookup, 1);
    if (status == KILN_OK) {
        status = kilni_append_number(to, read->what, 1);
    }
    if (status == KILN_OK) {
        status = kilni_append_number(to, read->is_relative ? 1 : 0, 1);
    }
    return status == KILN_OK ? kilni_append_text(to, read->path) : status;
}

kiln_status kilni_stored_reads_append(kilni_text *to, const kilni_stored_read *read)
{
    kiln_status status = append_lookup(to, read);
    if (status == KILN_OK && kilni_lookup_has_target(read->lookup, read->what)) {
        status = kilni_append_text(to, read->target);
    }
    if (status == KILN_OK && read->what == KILN_FOUND_FILE) {
        status = kilni_append_number(to, read->size, 8);
        if (status == KILN_OK) {
            status = kilni_text_append_bytes(to, read->digest, KILNI_FILE_DIGEST_BYTES);
        }
    }
    return status == KILN_OK && kilni_finding_has_identity(read->what)
               ? kilni_append_number(to, read->same, 4)
               : status;
}

/* ---- decoding ---- */

kiln_status kilni_stored_reads_decode_header(kilni_byte_reader *reader,
                                             const char **ret_only_folder, uint32_t *ret_count)
{
    const bool moves = kilni_read_u8(reader) != 0;
    const char *only_folder = moves ? NULL : kilni_read_text(reader);
    const uint32_t count = kilni_read_u32(reader);
    if (reader->failed || (!moves && !only_folder) || count > KILNI_READS_MAX) {
        return KILN_E_CORRUPT;
    }
    *ret_only_folder = only_folder;
    *ret_count = count;
    return KILN_OK;
}

static void decode_file(kilni_byte_reader *reader, kilni_stored_read *read)
{
    read->size = kilni_read_u64(reader);
    read->digest = kilni_read_bytes(reader, KILNI_FILE_DIGEST_BYTES);
}

kiln_status kilni_stored_reads_decode_next(kilni_byte_reader *reader, kilni_stored_read *ret_read)
{
    const uint8_t lookup = kilni_read_u8(reader), what = kilni_read_u8(reader);
    kilni_stored_read read = {.lookup = (kilni_lookup)lookup, .what = (kiln_finding)what};
    read.is_relative = kilni_read_u8(reader) != 0;
    read.path = kilni_read_text(reader);
    read.target = kilni_lookup_has_target(read.lookup, read.what) ? kilni_read_text(reader) : "";
    if (what == KILN_FOUND_FILE) {
        decode_file(reader, &read);
    }
    if (kilni_finding_has_identity(read.what)) {
        read.same = kilni_read_u32(reader);
    }
    if (reader->failed || !read.path || !read.target || lookup < KILNI_LOOKUP_CONTENT ||
        lookup > KILNI_LOOKUP_FACTS || what < KILN_FOUND_NOTHING || what > KILN_FOUND_LINK) {
        return KILN_E_CORRUPT;
    }
    *ret_read = read;
    return KILN_OK;
}
