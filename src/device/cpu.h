/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <kiln/status.h>

#include "base/text.h"

/* Appends what a compiler can see of this processor: maker, model, and the instructions that it
 * and the system allow. The same on every core, and on every machine with equal processors.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: it can't be told here; KILN_E_NO_MEMORY. */
kiln_status kilni_cpu_describe(kilni_text *text);
