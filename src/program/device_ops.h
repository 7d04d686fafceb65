/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of a backend's device ops. A backend is allowed to lack functions that it does not need,
 * or that did not exist when it was written.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/device.h>

#include "base/error.h"

#define KILNI_OPS_HAVE(ops, slot)                                                                  \
    ((ops)->struct_size >= offsetof(kiln_device_ops, slot) + sizeof(ops)->slot && (ops)->slot)

/* Returns true if a backend has all required functions. */
static inline bool kilni_ops_are_usable(const kiln_device_ops *ops)
{
    return KILNI_OPS_HAVE(ops, name) && KILNI_OPS_HAVE(ops, identity) &&
           KILNI_OPS_HAVE(ops, describe) && KILNI_OPS_HAVE(ops, build) &&
           KILNI_OPS_HAVE(ops, load) && KILNI_OPS_HAVE(ops, kernel) &&
           KILNI_OPS_HAVE(ops, release_program) && KILNI_OPS_HAVE(ops, release_kernel) &&
           ops->capture_cost <= KILN_CAPTURE_EXPENSIVE &&
           (ops->capture || ops->capture_cost == KILN_CAPTURE_NEVER);
}

/* Returns @status, or KILN_E_INVALID if @status is positive. An op must not return a positive
 * status. @error can be NULL. */
static inline kiln_status kilni_ops_checked_status(const kiln_device_ops *ops, kiln_status status,
                                                   kiln_error *error)
{
    return status <= KILN_OK ? status
                             : kilni_error_set(error, KILN_E_INVALID, 0, "%s returned \"%s\"",
                                               ops->name, kiln_status_text(status));
}
