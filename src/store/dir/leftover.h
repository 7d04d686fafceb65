/* SPDX-License-Identifier: Apache-2.0
 *
 * A leftover is a file that a process created or set aside, and could not remove because it was
 * killed. A trim removes leftovers.
 */
#pragma once

#include <stdbool.h>

#include "store/dir/dir.h"

/* Returns true if no running writer has locked a file and it is older than an hour. The file must
 * be a temporary, a file that was set aside, or half of a pair. */
bool kilni_dir_is_leftover(const kilni_dir_found *found);
