/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "records.h"

/* Makes the driver build what was loaded from the cache, and drops the loaded program. Called for
 * calls that only the driver's own program can serve. */
void build_natively(program_record *record, const char *why);
