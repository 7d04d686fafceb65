/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs @work in the calling thread with cancellation disabled. @work contains cancellation points,
 * and other threads wait for its result: a thread cancelled inside it would leave them waiting for
 * ever. */
void run_uncancelled(void (*work)(void *user), void *user);
