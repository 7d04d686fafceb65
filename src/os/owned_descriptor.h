/* SPDX-License-Identifier: Apache-2.0
 *
 * A descriptor that Kiln keeps open for a long time in an application's process. An application
 * might close descriptors that it did not open. Its own files can then get the numbers of these
 * descriptors. Kiln must no longer use such a number, and above all must not close it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include <kiln/status.h>

typedef struct kilni_owned_descriptor {
    int file; /* -1: none */
    dev_t device;
    ino_t inode;
} kilni_owned_descriptor;

/* Takes ownership of a descriptor, remembers which file it refers to, and moves it to a high
 * number, because the application expects that its own files get the lowest free numbers. Returns
 * KILN_OK; KILN_E_IO: @file can't be examined, and still belongs to the caller. */
kiln_status kilni_owned_descriptor_take(int file, kilni_owned_descriptor *ret_owned);

/* Moves the descriptor, and leaves device and inode as they are. If no high number is free, the
 * descriptor keeps its number. */
void kilni_owned_descriptor_move_up(kilni_owned_descriptor *owned);

/* Replaces the file of @owned with @file, under the same number. A thread that uses the number
 * meanwhile gets either the old file or the new file. If the number no longer refers to the file of
 * @owned, does the same as kilni_owned_descriptor_take. Returns KILN_OK: @file now belongs to
 * @ret_owned; KILN_E_IO: @file still belongs to the caller. */
kiln_status kilni_owned_descriptor_replace(const kilni_owned_descriptor *owned, int file,
                                           kilni_owned_descriptor *ret_owned);

/* Returns true if the number still refers to the file that was remembered. */
bool kilni_owned_descriptor_is_intact(const kilni_owned_descriptor *owned);

/* Closes the descriptor if it is intact. */
void kilni_owned_descriptor_close(kilni_owned_descriptor *owned);
