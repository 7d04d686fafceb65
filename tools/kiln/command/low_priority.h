/* SPDX-License-Identifier: Apache-2.0
 *
 * For work that must not slow down what else the machine does.
 */
#pragma once

/* Gives this process and its children the lowest priority for processors and disks. They leave no
 * core files, which nobody would look for. */
void low_priority_set(void);
