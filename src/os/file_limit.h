/* SPDX-License-Identifier: Apache-2.0
 *
 * The limit on the size of files, RLIMIT_FSIZE. A thread that writes beyond it gets SIGXFSZ, which
 * ends the process unless the application says otherwise. Between these two calls such a write only
 * fails, with EFBIG.
 *
 * The calls nest, and only the outermost pair asks the system for anything. They keep errno.
 */
#pragma once

/* Blocks SIGXFSZ in this thread. */
void kilni_file_limit_begin(void);

/* Says that a write of this thread failed with EFBIG since, so that a signal may be waiting. */
void kilni_file_limit_reached(void);

/* Takes the signal that such a write caused, and no other, and gives the thread its mask back. */
void kilni_file_limit_end(void);
