/* SPDX-License-Identifier: Apache-2.0
 *
 * The path of the file in which the processes of a machine share a server's state (server_state.h).
 */
#pragma once

#include "store/store.h"

/* Returns the path of the file. It is in the store's state folder if that is an absolute path, else
 * in the user's runtime folder, /run/user/UID. Returns NULL if memory runs out. The caller frees
 * the path.
 *
 * @identity  a digest of everything that decides whether the server can be reached */
char *kilni_remote_state_path(const kilni_store_options *options, const kiln_digest *identity);

/* Sets a folder to be used instead of the user's runtime folder, for tests. Must be called before
 * the first open. */
void kilni_remote_set_runtime_folder(const char *path);
