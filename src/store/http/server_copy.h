/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of a caller's description of a server. The copy stays valid after the call.
 */
#pragma once

#include "store/network/tls.h"
#include "store/remote/connector.h"

/* Copies a server and its texts into one block of memory. The caller must free the block with
 * free(). Returns NULL if memory runs out. */
kilni_remote_server *kilni_http_copy_server(const kilni_remote_server *server);

/* Returns the settings for encrypted connections to a server. @server must outlive the result. */
kilni_tls_settings kilni_http_tls_of(const kilni_remote_server *server);
