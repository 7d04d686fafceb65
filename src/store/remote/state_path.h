/* SPDX-License-Identifier: Apache-2.0
 *
 * The paths of the files in which the processes of a machine share what they know about a server.
 */
#pragma once

#include "store/store.h"

/* Returns the path of a file. The file is in the store's state folder if that is an absolute path,
 * and otherwise in the user's runtime folder, /run/user/UID. Returns NULL if memory runs out. The
 * caller must free the path.
 *
 * @kind      what the file contains: "server" (server_state.h) or "uses" (daily_uses.h)
 * @identity  a digest of everything that determines whether two stores share the file */
char *kilni_remote_state_path(const kilni_store_options *options, const char *kind,
                              const kiln_digest *identity);

/* Sets a folder that is used instead of the user's runtime folder. Only tests call this function,
 * before the first open. */
void kilni_remote_set_runtime_folder(const char *path);
