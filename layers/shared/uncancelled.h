/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs work in the calling thread, which cannot be cancelled meanwhile: work waits and writes at
 * points where a thread may be, and others wait for what it does. */
void run_uncancelled(void (*work)(void *user), void *user);
