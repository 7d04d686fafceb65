/* SPDX-License-Identifier: Apache-2.0 */
#include "included_files.h"

#include <stdio.h>

#include <kiln/store_tools.h>

#include "base/bytes.h"
#include "device/file_content.h"
#include "device/watch/inputs.h"
#include "device/watch/stored_reads.h"
#include "session.h"

/* Larger files are not kept. */
#define FILE_BYTES_MAX (16u << 20)

static void keep_file(kiln_store *included, const char *path, const unsigned char *digest)
{
    kilni_file_content file;
    if (kiln_included_contains(included, digest) == KILN_MISS &&
        kilni_file_content_read(path, FILE_BYTES_MAX, &file) == KILN_OK) {
        kiln_included_put(included, digest, (kiln_bytes){file.bytes, file.size});
        kilni_file_content_done(&file);
    }
}

static void keep_all(kiln_store *included, kiln_bytes reads, const char *program_name)
{
    kilni_byte_reader reader = {.at = reads.data, .left = reads.size};
    const char *only_folder = NULL;
    uint32_t count = 0;
    kilni_stored_read read;
    if (kilni_stored_reads_decode_header(&reader, &only_folder, &count) != KILN_OK) {
        return;
    }
    for (; count > 0 && kilni_stored_reads_decode_next(&reader, &read) == KILN_OK; count--) {
        char path[PATH_MAX];
        const size_t folder_length =
            read.is_relative ? kilni_program_folder_length(program_name) : 0;
        const int length = snprintf(path, sizeof path, "%.*s%s", (int)folder_length,
                                    folder_length > 0 ? program_name : "", read.path);
        if (read.what == KILN_FOUND_FILE && length > 0 && (size_t)length < sizeof path) {
            keep_file(included, path, read.digest);
        }
    }
}

/* The store is opened for each result, and closed again, because that saves its totals, and so
 * keeps it below its limit. */
void included_files_keep(kiln_bytes reads, const char *program_name)
{
    const uint64_t max_bytes = session_config()->included_max_bytes;
    kiln_store *included = NULL;
    if (session_requests() && session_can_store() && max_bytes > 0 &&
        kiln_included_open(session_requests()->store, max_bytes, &included) == KILN_OK) {
        keep_all(included, reads, program_name);
        kiln_store_close(&included);
    }
}
