/* SPDX-License-Identifier: Apache-2.0
 *
 * The store engine for the directory of a group, and its URLs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "key/hash.h"
#include "store/group/group.h"
#include "store/remote/remote.h"
#include "store/remote/state_path.h"

#define MAX_ENTRY_BYTES ((uint64_t)16 << 20)

/* No name of an entry begins like that of a damaged entry or a device: a digest is hexadecimal, and
 * all names of entries have the same length. */
static const kilni_remote_naming naming = {
    KILNI_GROUP_PREFIX, "", KILNI_GROUP_PREFIX "damaged-", "", KILNI_GROUP_PREFIX "device-", ""};

/* There are no leases: a member of the group could hold one for ever. */
static uint32_t capabilities_of(uint32_t flags)
{
    return KILNI_STORE_SENDS | KILNI_STORE_FOREIGN |
           (flags & KILN_STORE_READONLY ? 0u : KILNI_STORE_WRITABLE);
}

static kiln_status check_url(const char *text, const char *path, kiln_error *error)
{
    (void)text;
    return path[0] == '/' ? KILN_OK
                          : kilni_error_set(error, KILN_E_PARSE, 0,
                                            "group: expected the absolute path of a directory, as "
                                            "in group:/path");
}

/* Returns the path of the file that says which devices this machine has reported as used today. */
static char *uses_path_of(const char *path, const kilni_store_options *options)
{
    kilni_hasher hasher;
    kilni_hasher_begin(&hasher);
    kilni_hasher_add(&hasher, KILNI_GROUP_PREFIX, strlen(KILNI_GROUP_PREFIX));
    kilni_hasher_add(&hasher, path, strlen(path));
    const kiln_digest place = kilni_hasher_end(&hasher);
    return kilni_remote_state_path(options, "uses", &place);
}

static kiln_status open_directory(const char *path, const kilni_store_options *options,
                                  kiln_store **ret_store, kiln_error *error)
{
    kilni_remote_server server = {.max_bytes = options->max_bytes};
    if (strlen(path) >= sizeof server.path) {
        return kilni_error_set(error, KILN_E_INVALID, 0, "group: the path is too long");
    }
    memcpy(server.path, path, strlen(path) + 1);
    char *uses_path = uses_path_of(path, options);
    const kiln_status status =
        kilni_remote_open(path, &kilni_group_connector, &server, &naming, options,
                          capabilities_of(options->flags), uses_path, ret_store, error);
    free(uses_path);
    return status;
}

/* There is no option trust=any: whoever may write to the directory could choose what its readers
 * run. */
static const char *const url_options[] = {"readonly", "write",     "key-file", "secret-key-file",
                                          "valid",    "max-entry", "max-size", NULL};

const kilni_store_engine kilni_group_engine = {
    .noun = "a group's directory",
    .scheme = "group:",
    .options = url_options,
    .check_url = check_url,
    .open = open_directory,
    .max_entry_bytes = MAX_ENTRY_BYTES,
    .needs_trust = true,
    .capabilities = capabilities_of,
};
