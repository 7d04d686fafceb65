/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a store by its location. This file contains the list of all engines.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/chain/chain.h"
#include "store/dir/dir.h"
#include "store/group/group.h"
#include "store/location.h"
#include "store/pack/pack.h"
#include "store/remote/remote.h"

/* The first engine opens a location that is a path and not a URL. */
static const kilni_store_engine *const engines[] = {
    &kilni_dir_engine,           &kilni_pack_engine,           &kilni_group_engine,
    &kilni_redis_engine,         &kilni_rediss_engine,         &kilni_redis_socket_engine,
    &kilni_http_engine,          &kilni_https_engine,          &kilni_s3_engine,
    &kilni_redis_cluster_engine, &kilni_rediss_cluster_engine, NULL};

kiln_status kiln_store_open(const char *location, const kiln_store_params *params,
                            kiln_store **ret_store, kiln_error *error)
{
    if (!ret_store) {
        return KILN_E_INVALID;
    }
    if (location && strchr(location, '|')) {
        return kilni_chain_open(location, params, engines, ret_store, error);
    }
    kilni_location where;
    kiln_status status = kilni_location_parse(location, params, engines, &where, error);
    if (status != KILN_OK) {
        return status;
    }
    status = where.options.write == KILNI_WRITE_UNSET
                 ? kilni_store_open_with(where.engine, where.path, &where.options, ret_store, error)
                 : kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                                   "write= is for the tiers of a chain, as in a|b");
    free(where.path);
    return status;
}
