/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens libkiln_remote, which communicates with servers.
 */
#pragma once

#include "store/remote/connector.h"

/* Opens libkiln_remote unless it is already open, and keeps it open. Looks for it in the folder of
 * the library that contains this code, and in the subfolder "kiln" of that folder.
 *
 * @symbol  KILNI_…_CONNECTOR
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the library is not installed, cannot be opened, or has a
 * different version. @error describes the failure. */
kiln_status kilni_remote_load(const char *symbol, const kilni_connector **ret_connector,
                              kiln_error *error);

/* Sets the path of libkiln_remote. Only tests call this function, because they have the library in
 * a different place. It must be called before the first kilni_remote_load. */
void kilni_remote_set_library(const char *path);
