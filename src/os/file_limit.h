/* SPDX-License-Identifier: Apache-2.0
 *
 * The limit on the size of files, RLIMIT_FSIZE. A thread that writes beyond this limit receives
 * SIGXFSZ. This signal terminates the process unless the application handles or ignores it. Between
 * kilni_file_limit_begin and kilni_file_limit_end, such a write fails with EFBIG, and the thread
 * receives no signal.
 *
 * Pairs of these two calls can be nested, and only the outermost pair makes system calls. The calls
 * preserve errno.
 */
#pragma once

/* Blocks SIGXFSZ in this thread. */
void kilni_file_limit_begin(void);

/* Notes that a write by this thread has failed with EFBIG, and that a signal might therefore be
 * pending. */
void kilni_file_limit_reached(void);

/* If a write since kilni_file_limit_begin caused a signal, consumes that signal and no other.
 * Restores the thread's signal mask. */
void kilni_file_limit_end(void);
