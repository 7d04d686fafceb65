/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "records.h"

/* Makes the driver build a program that was loaded from the cache, and drops the loaded program.
 * This is needed before calls that only the driver's own program can serve. Does nothing if no
 * program is loaded. Also does nothing after a link, when the application itself holds the loaded
 * program. */
void build_natively(program_record *record, const char *why);
