/* SPDX-License-Identifier: Apache-2.0
 *
 * What a backend's device ops may be: slots that it lacks, because it has no use for them, or
 * because it was written when there were fewer; and what they answer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/device.h>

#include "base/error.h"

#define KILNI_OPS_HAVE(ops, slot)                                                                  \
    ((ops)->struct_size >= offsetof(kiln_device_ops, slot) + sizeof(ops)->slot && (ops)->slot)

/* Whether a backend has all that can't be done without. */
static inline bool kilni_ops_are_usable(const kiln_device_ops *ops)
{
    return KILNI_OPS_HAVE(ops, name) && KILNI_OPS_HAVE(ops, identity) &&
           KILNI_OPS_HAVE(ops, describe) && KILNI_OPS_HAVE(ops, build) &&
           KILNI_OPS_HAVE(ops, load) && KILNI_OPS_HAVE(ops, kernel) &&
           KILNI_OPS_HAVE(ops, release_program) && KILNI_OPS_HAVE(ops, release_kernel) &&
           ops->capture_cost <= KILN_CAPTURE_DEAR &&
           (ops->capture || ops->capture_cost == KILN_CAPTURE_NEVER);
}

/* What a slot answered, as it counts: an outcome that is no error and that the slot does not name
 * is one. @error may be NULL. */
static inline kiln_status kilni_ops_answer(const kiln_device_ops *ops, kiln_status status,
                                           kiln_error *error)
{
    return status <= KILN_OK ? status
                             : kilni_error_set(error, KILN_E_INVALID, 0, "%s answered \"%s\"",
                                               ops->name, kiln_status_text(status));
}
