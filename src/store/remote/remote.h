/* SPDX-License-Identifier: Apache-2.0
 *
 * A store on a server. This code makes the names of entries and verifies the answers. A connector
 * communicates with the server.
 */
#pragma once

#include "store/engine.h"
#include "store/remote/connector.h"

extern const kilni_store_engine kilni_redis_engine;          /* redis: */
extern const kilni_store_engine kilni_rediss_engine;         /* rediss: */
extern const kilni_store_engine kilni_redis_socket_engine;   /* redis+unix: */
extern const kilni_store_engine kilni_redis_cluster_engine;  /* redis-cluster: */
extern const kilni_store_engine kilni_rediss_cluster_engine; /* rediss-cluster: */
extern const kilni_store_engine kilni_http_engine;           /* http: */
extern const kilni_store_engine kilni_https_engine;          /* https: */
extern const kilni_store_engine kilni_s3_engine;             /* s3: */

/* The text before and after the digest in the name of an entry. All servers of one kind use the
 * same naming. */
typedef struct kilni_remote_naming {
    const char *before, *behind; /* together at most 16 characters */
    /* The texts around the digest in the name of a damaged entry that was moved away; together at
     * most 24 characters. A list of the names of entries does not include these names. */
    const char *damaged_before, *damaged_behind;
    /* The same for the record of a device (store/device_use.h). */
    const char *device_before, *device_behind;
} kilni_remote_naming;

/* Opens a store on a server, without contacting the server.
 *
 * @name    names the server in messages
 * @naming  must outlive the store
 * @uses_file  the path of a file that records which entries were used today, and that the processes
 *             of this machine share; NULL: nothing is shared
 * Returns KILN_OK; KILN_E_NO_MEMORY; a status of the connector's open. */
kiln_status kilni_remote_open(const char *name, const kilni_connector *connector,
                              const kilni_remote_server *server, const kilni_remote_naming *naming,
                              const kilni_store_options *options, uint32_t capabilities,
                              const char *uses_file, kiln_store **ret_store, kiln_error *error);
