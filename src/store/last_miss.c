/* SPDX-License-Identifier: Apache-2.0 */
#include "store/last_miss.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "entry/format.h"
#include "os/file.h"
#include "os/os.h"
#include "store/lock.h"

/* How long a reader waits for a writer. After this time the reader reads the file without the lock.
 * The checksum then shows whether the entry is complete. */
#define READ_WAIT_NS UINT64_C(100000000)

/* Parts of the key that are longer than STRIP_ABOVE are stored as digests. If the entry would still
 * be too large, the lower limit that follows is used. */
#define STRIP_ABOVE 4096u
#define STRIP_ABOVE_OF_MANY 64u

#define MISSED_PART "missed"

/* ---- the entry ---- */

static kiln_status make_own_key(kiln_key **ret_key)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        kiln_key_builder_add_number(builder, MISSED_PART, 1);
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

/* @own  the key of the new entry itself, not the missed key */
static kiln_status make_entry(const kiln_key *own, const kiln_key *missed, uint64_t strip_above,
                              kiln_entry **ret_miss)
{
    kiln_key *stripped = NULL;
    kiln_status status = kiln_key_strip(missed, strip_above, &stripped);
    if (status != KILN_OK) {
        return status;
    }
    kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = own,
        .kind = KILN_ENTRY_BLOB,
        .provenance = {.struct_size = sizeof params.provenance},
    };
    params.payload.data = kiln_key_encoding(stripped, &params.payload.size);
    kiln_entry *miss = NULL;
    status = kiln_entry_new(&params, &miss);
    kiln_key_release(&stripped);
    if (status == KILN_OK &&
        kiln_entry_encoding(miss).size > KILNI_LAST_MISS_MAX_BYTES - KILNI_ENTRY_MAC_MAX_GROWTH) {
        kiln_entry_release(&miss);
        return KILN_E_TOO_LARGE;
    }
    *ret_miss = miss;
    return status;
}

kiln_status kilni_last_miss_entry_of(const kiln_key *key, kiln_entry **ret_miss)
{
    kiln_key *own = NULL;
    kiln_status status = make_own_key(&own);
    if (status != KILN_OK) {
        return status;
    }
    status = make_entry(own, key, STRIP_ABOVE, ret_miss);
    if (status == KILN_E_TOO_LARGE) {
        status = make_entry(own, key, STRIP_ABOVE_OF_MANY, ret_miss);
    }
    kiln_key_release(&own);
    return status;
}

kiln_status kilni_last_miss_key_of(const kiln_entry *miss, kiln_key **ret_key)
{
    kiln_key *own = NULL;
    kiln_status status = make_own_key(&own);
    if (status != KILN_OK) {
        return status;
    }
    const kiln_bytes encoding = kiln_entry_payload(miss);
    status = kiln_key_equals(kiln_entry_key(miss), own)
                 ? kiln_key_decode(encoding.data, encoding.size, ret_key)
                 : KILN_E_CORRUPT;
    kiln_key_release(&own);
    return status;
}

/* ---- the file ---- */

/* Checks that the file can be overwritten. Returns KILN_OK: the file is empty, or Kiln wrote it;
 * KILN_EXISTS: the file contains something else; KILN_E_IO. */
static kiln_status check_content(int file)
{
    unsigned char magic[KILNI_ENTRY_MAGIC_SIZE];
    size_t count = 0;
    if (kilni_file_read_at(file, magic, sizeof magic, 0, &count) != KILN_OK) {
        return KILN_E_IO;
    }
    return count == 0 || (count == sizeof magic && memcmp(magic, KILNI_ENTRY_MAGIC, count) == 0)
               ? KILN_OK
               : KILN_EXISTS;
}

static kiln_status replace_content(int file, kiln_bytes bytes)
{
    kiln_status status = check_content(file);
    if (status == KILN_OK) {
        status = kilni_file_write_at(file, bytes.data, bytes.size, 0);
    }
    return status == KILN_OK ? kilni_file_resize(file, (off_t)bytes.size) : status;
}

kiln_status kilni_last_miss_write(int directory, const char *path, const kiln_entry *entry)
{
    kilni_lock lock;
    kiln_status status = kilni_lock_open_briefly(directory, path, O_RDWR | O_CREAT, &lock, NULL);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_lock_take(&lock, F_WRLCK, 0, 0, 0);
    /* On a file system without locks, two processes can write at the same time. The checksum shows
     * this to readers. */
    if (status == KILN_OK || status == KILN_E_UNSUPPORTED) {
        status = replace_content(lock.held.file, kiln_entry_encoding(entry));
    }
    kilni_lock_close(&lock);
    return status;
}

static kiln_status read_content(int file, const kilni_signing_key *signing_key,
                                kiln_entry **ret_entry)
{
    unsigned char *bytes = malloc(KILNI_LAST_MISS_MAX_BYTES);
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    size_t count = 0;
    kiln_status status = kilni_file_read_at(file, bytes, KILNI_LAST_MISS_MAX_BYTES, 0, &count);
    if (status == KILN_OK) {
        status = kilni_entry_adopt(bytes, count, signing_key, ret_entry);
    }
    if (status != KILN_OK) {
        free(bytes);
    }
    return status;
}

kiln_status kilni_last_miss_read(int directory, const char *path,
                                 const kilni_signing_key *signing_key, kiln_entry **ret_entry)
{
    kilni_lock lock;
    kiln_status status = kilni_lock_open_briefly(directory, path, O_RDONLY, &lock, NULL);
    if (status != KILN_OK) {
        return status;
    }
    kilni_lock_take(&lock, F_RDLCK, 0, 0, READ_WAIT_NS);
    status = read_content(lock.held.file, signing_key, ret_entry);
    kilni_lock_close(&lock);
    return status;
}
