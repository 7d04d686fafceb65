/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots of device ops that a backend may lack: because it has no use for them, or because it was
 * written when there were fewer.
 */
#pragma once

#include <stddef.h>

#include <kiln/device.h>

#define KILNI_OPS_HAVE(ops, slot)                                                                  \
    ((ops)->struct_size >= offsetof(kiln_device_ops, slot) + sizeof(ops)->slot && (ops)->slot)
