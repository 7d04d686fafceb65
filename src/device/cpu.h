/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <kiln/status.h>

#include "base/text.h"

/* Appends what a compiler can find out about this processor: its vendor, its model, and the
 * instructions that the processor and the system support. The text is the same on every core of a
 * machine, and on all machines with equal processors.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the processor cannot be identified; KILN_E_NO_MEMORY. */
kiln_status kilni_cpu_describe(kilni_text *text);
