/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies entries from one store into another, for the commands that do so.
 */
#pragma once

#include <stdbool.h>

#include "entry_filter.h"

typedef struct transfer_terms {
    entry_filter *filter; /* NULL: every item is selected, even those that should not be in the
                             store */
    bool only_fitting;    /* only entries that fit the OpenCL drivers and devices found here */
    bool trusts;          /* entries need no authentication */
    bool json;
} transfer_terms;

/* Copies, shows the progress, and prints what was done. Returns the exit code.
 *
 * @from  a location
 * @into  a location; NULL: the location that the environment names */
int transfer_run(const char *from, const char *into, const transfer_terms *terms);
