/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>

#include "store/dir/dir.h"
#include "store/lock.h"

/* The first bytes of a key's digest are the offset of the byte that is locked. Two keys have the
 * same offset with a probability of 1 in 2^40. In that case, a builder of one key needlessly waits
 * for a builder of the other. */
#define OFFSET_BYTES 5

typedef struct dir_lease {
    kiln_lease lease; /* first: a dir_lease is a kiln_lease */
    kilni_lock lock;
} dir_lease;

static off_t offset_of(const kiln_key *key)
{
    kiln_digest digest = kiln_key_digest(key);
    uint64_t offset = 0;
    for (int i = 0; i < OFFSET_BYTES; i++) {
        offset = offset << 8 | digest.bytes[i];
    }
    return (off_t)offset;
}

/* Opens the lease file. If this fails, no lease can be granted, and the caller builds without one.
 */
static kiln_status open_lease_file(kilni_dir *dir, kilni_lock *ret_lock)
{
    kiln_status status =
        kilni_lock_open(kilni_dir_root(dir), KILNI_DIR_LEASE, O_RDWR | O_CREAT, ret_lock);
    if (status == KILN_MISS && kilni_dir_reopen(dir) == KILN_OK) {
        status = kilni_lock_open(kilni_dir_root(dir), KILNI_DIR_LEASE, O_RDWR | O_CREAT, ret_lock);
    }
    switch (status) {
    case KILN_E_DENIED:
    case KILN_E_READONLY:
        return KILN_E_UNSUPPORTED;
    case KILN_OK:
    case KILN_E_NO_MEMORY:
        return status;
    default:
        return KILN_E_IO;
    }
}

/* Taking this lease needs so little time that it is worth while for every build. So @build_ns is
 * ignored. */
kiln_status kilni_dir_lease(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                            uint64_t wait_ns, kiln_lease **ret_lease)
{
    (void)build_ns;
    dir_lease *lease = calloc(1, sizeof *lease);
    if (!lease) {
        return KILN_E_NO_MEMORY;
    }
    lease->lease.ops = store->ops;
    kiln_status status = open_lease_file(kilni_dir_of(store), &lease->lock);
    if (status == KILN_OK) {
        status = kilni_lock_take(&lease->lock, F_WRLCK, offset_of(key), 1, wait_ns);
        if (status == KILN_OK) {
            *ret_lease = &lease->lease;
            return KILN_OK;
        }
        kilni_lock_close(&lease->lock);
    }
    free(lease);
    return status;
}

void kilni_dir_lease_release(kiln_lease *lease)
{
    dir_lease *held = (dir_lease *)lease;
    kilni_lock_close(&held->lock);
    free(held);
}
