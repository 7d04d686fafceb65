/* SPDX-License-Identifier: Apache-2.0
 *
 * Leftovers: files that a process created or set aside, and could not remove because it was killed.
 * A trim removes them.
 */
#pragma once

#include <stdbool.h>

#include "store/dir/dir.h"

/* Whether a temporary, or a file that was set aside, is older than an hour and its writer has
 * ended. A running writer holds a lock on its file. */
bool kilni_dir_is_leftover(const kilni_dir_found *found);
