/* SPDX-License-Identifier: Apache-2.0
 *
 * A descriptor that Kiln keeps open for a long time in an application's process. An application may
 * close descriptors that it did not open, and its own files may then get their numbers. Kiln must
 * not use such a number any longer, and above all must not close it.
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
 * number, since the application expects its own files to get the lowest free ones. Returns KILN_OK;
 * KILN_E_IO: @file can't be examined, and stays the caller's. */
kiln_status kilni_owned_descriptor_take(int file, kilni_owned_descriptor *ret_owned);

/* Only moves the descriptor, and leaves device and inode as they are. If no high number is free,
 * the descriptor keeps its number. */
void kilni_owned_descriptor_move_up(kilni_owned_descriptor *owned);

/* Replaces the file of @owned with @file, under the same number: a thread that uses the number
 * meanwhile gets either the old file or the new one. If the number is no longer intact, does the
 * same as kilni_owned_descriptor_take. Returns KILN_OK and owns @file; KILN_E_IO: @file stays the
 * caller's. */
kiln_status kilni_owned_descriptor_replace(const kilni_owned_descriptor *owned, int file,
                                           kilni_owned_descriptor *ret_owned);

/* Whether the number still refers to the file that was remembered. */
bool kilni_owned_descriptor_is_intact(const kilni_owned_descriptor *owned);

/* Closes the descriptor if it is intact. */
void kilni_owned_descriptor_close(kilni_owned_descriptor *owned);
