/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/stats.h>

#include <fcntl.h>

#include "store/totals.h"

/* Converts a status of kilni_totals_… to a status that the public header lists. */
static kiln_status public_status(kiln_status status)
{
    switch (status) {
    case KILN_OK:
    case KILN_MISS:
    case KILN_E_CORRUPT:
    case KILN_E_DENIED:
        return status;
    default:
        return KILN_E_IO;
    }
}

kiln_status kiln_stats_add_to_file(const char *path, const kiln_stats *delta)
{
    if (!path || !delta) {
        return KILN_E_INVALID;
    }
    kilni_totals_change change = {.counters = *delta};
    kiln_status status = public_status(kilni_totals_change_file(AT_FDCWD, path, &change, NULL));
    return status == KILN_MISS ? KILN_E_IO : status;
}

kiln_status kiln_stats_read_file(const char *path, kiln_stats *ret_stats)
{
    if (!path || !ret_stats) {
        return KILN_E_INVALID;
    }
    kilni_totals totals;
    kiln_status status = public_status(kilni_totals_read_file(AT_FDCWD, path, &totals));
    if (status == KILN_OK) {
        *ret_stats = totals.counters;
    }
    return status;
}
