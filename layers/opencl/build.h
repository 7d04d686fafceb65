/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "records.h"

/* Makes the driver build what a program's twin stands for, and drops the twin: for calls that only
 * the driver's own program can serve. */
void build_natively(program_record *record, const char *why);
