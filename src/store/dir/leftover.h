/* SPDX-License-Identifier: Apache-2.0
 *
 * Leftovers: files that a process created or set aside, and could not remove because it was killed.
 * A trim removes them.
 */
#pragma once

#include <stdbool.h>

#include "store/dir/dir.h"

/* Whether a temporary, a file that was set aside, or half of a pair is older than an hour and no
 * running writer holds a lock on it. */
bool kilni_dir_is_leftover(const kilni_dir_found *found);
