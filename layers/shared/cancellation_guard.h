/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs @work in the calling thread with cancellation disabled. @work contains cancellation points,
 * and other threads wait for its result. If the calling thread were cancelled in it, they would
 * wait forever. */
void run_without_cancellation(void (*work)(void *user), void *user);
