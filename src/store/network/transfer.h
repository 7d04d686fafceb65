/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that send or receive as many bytes as a socket can take or provide without blocking.
 * They raise no signal.
 */
#pragma once

#include <stddef.h>

#include <kiln/status.h>

#include "os/owned_descriptor.h"

/* Each function returns KILN_OK and a count above 0; KILN_BUSY: no byte can be sent or received
 * now; KILN_E_IO: the connection has ended, or Kiln no longer owns the descriptor. */
kiln_status kilni_transfer_send(const kilni_owned_descriptor *file, const void *bytes, size_t size,
                                size_t *ret_count);
kiln_status kilni_transfer_receive(const kilni_owned_descriptor *file, void *bytes, size_t size,
                                   size_t *ret_count);
