/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dir/job.h"

#include <string.h>

#include "base/bytes.h"
#include "key/hash.h"
#include "os/file.h"

#define MAGIC "KILNJOB\x01"
#define MAGIC_SIZE 8u
#define CHECKSUM_SIZE 8u

enum { FIELDS = sizeof(kilni_dir_job) / sizeof(uint64_t) };
enum { FILE_SIZE = MAGIC_SIZE + 8 * FIELDS + CHECKSUM_SIZE };

_Static_assert(sizeof(kilni_dir_job) % sizeof(uint64_t) == 0, "a job is an array of uint64_t");

kiln_status kilni_dir_job_load(int file, kilni_dir_job *ret_job)
{
    unsigned char bytes[FILE_SIZE];
    uint64_t fields[FIELDS];
    size_t count = 0;
    if (kilni_file_read_at(file, bytes, sizeof bytes, 0, &count) != KILN_OK ||
        count != sizeof bytes || memcmp(bytes, MAGIC, MAGIC_SIZE) != 0) {
        return KILN_MISS;
    }
    kilni_byte_reader reader = {.at = bytes + MAGIC_SIZE, .left = FILE_SIZE - MAGIC_SIZE};
    for (size_t i = 0; i < FIELDS; i++) {
        fields[i] = kilni_read_u64(&reader);
    }
    if (kilni_read_u64(&reader) != kilni_checksum(bytes, FILE_SIZE - CHECKSUM_SIZE)) {
        return KILN_MISS;
    }
    memcpy(ret_job, fields, sizeof *ret_job);
    return KILN_OK;
}

kiln_status kilni_dir_job_save(int file, const kilni_dir_job *job)
{
    unsigned char bytes[FILE_SIZE];
    uint64_t fields[FIELDS];
    memcpy(fields, job, sizeof fields);
    kilni_byte_writer writer = {.at = bytes, .left = sizeof bytes};
    kilni_write_bytes(&writer, MAGIC, MAGIC_SIZE);
    for (size_t i = 0; i < FIELDS; i++) {
        kilni_write_u64(&writer, fields[i]);
    }
    kilni_write_u64(&writer, kilni_checksum(bytes, FILE_SIZE - CHECKSUM_SIZE));
    return kilni_file_write_at(file, bytes, sizeof bytes, 0);
}
