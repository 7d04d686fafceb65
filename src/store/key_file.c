/* SPDX-License-Identifier: Apache-2.0 */
#include "store/key_file.h"

#include <sodium.h>
#include <string.h>

#include "base/error.h"
#include "store/private_file.h"

static kiln_status judge(const char *path, const unsigned char *bytes, size_t count,
                         kiln_error *error)
{
    const char *why = NULL;
    if (count != sizeof(kilni_signing_key)) {
        why = "must contain 32 bytes";
    } else if (sodium_is_zero(bytes, count)) {
        /* After a power failure, a new file can contain only zeros. Anybody could guess such a key.
         */
        why = "contains only zeros";
    }
    return why ? kilni_error_set(error, KILN_E_DENIED, 0, "key file %s %s", path, why) : KILN_OK;
}

kiln_status kilni_key_file_read(const char *path, kilni_signing_key *ret_key, kiln_error *error)
{
    unsigned char bytes[4096]; /* larger than a key, so that too long files are detected */
    size_t count = 0;
    kiln_status status =
        kilni_private_file_read(path, "key file", bytes, sizeof bytes, &count, error);
    if (status == KILN_OK) {
        status = judge(path, bytes, count, error);
    }
    if (status == KILN_OK) {
        memcpy(ret_key->bytes, bytes, sizeof ret_key->bytes);
    }
    sodium_memzero(bytes, sizeof bytes);
    return status;
}
