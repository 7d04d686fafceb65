/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs @work in the calling thread with cancellation disabled. This is for work that contains
 * cancellation points and whose result other threads wait for. If the calling thread were cancelled
 * during @work, those threads would wait forever. */
void run_without_cancellation(void (*work)(void *user), void *user);
