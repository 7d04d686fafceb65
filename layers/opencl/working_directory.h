/* SPDX-License-Identifier: Apache-2.0
 *
 * The working directory of a call, for what is done later in its stead. A process has one for all
 * its threads, but a thread may take one of its own.
 */
#pragma once

#include <sys/types.h>

#include <kiln/status.h>

/* Zeroed, it is none: any will do. */
typedef struct working_directory {
    char *path;
    dev_t device;
    ino_t inode;
} working_directory;

/* 1 where threads of this process may have one of their own; some sandboxes forbid it. */
int working_directory_can_be_kept(void);

/* Notes the one that is in force. KILN_OK; KILN_E_UNSUPPORTED: it can't be told; KILN_E_NO_MEMORY.
 */
kiln_status working_directory_note(working_directory *ret_directory);
void working_directory_done(working_directory *directory);

/* Runs work once and waits for it: in that directory, on a thread of its own, whatever the
 * process's is or becomes meanwhile. Should that directory be gone, or no thread be had, it runs as
 * things are. */
void working_directory_run(const working_directory *in, void (*work)(void *user), void *user);
