/* SPDX-License-Identifier: Apache-2.0
 *
 * How many processors the tool can use.
 */
#pragma once

/* Returns how many processors this process may run on, but no more than its control group gets
 * time for (cpu.max): at least 1. */
unsigned processors_available(void);
