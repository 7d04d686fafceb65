/* SPDX-License-Identifier: Apache-2.0
 *
 * A descriptor that is kept open for long in a process that isn't ours. An application may close
 * all descriptors that it doesn't know, and open files of its own: then the number is no longer
 * ours to use, and least of all to close.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include <kiln/status.h>

typedef struct kilni_owned_file {
    int file; /* -1: none */
    dev_t device;
    ino_t inode;
} kilni_owned_file;

/* Takes a descriptor over, remembers what it stands for, and moves it up out of the way of the
 * application, which gets the lowest free numbers. KILN_OK; KILN_E_IO: it is no descriptor. */
kiln_status kilni_owned_file_take(int file, kilni_owned_file *ret_owned);

/* The move alone, of one whose device and inode are known. Where there is no room it stays. */
void kilni_owned_file_move_away(kilni_owned_file *owned);

/* Puts another descriptor, which is taken over, in the place of one: under the same number, so that
 * who uses that meanwhile meets the old file or the new one. Where the number is not ours any more,
 * as kilni_owned_file_take. KILN_OK; KILN_E_IO: @file is still the caller's. */
kiln_status kilni_owned_file_put_over(const kilni_owned_file *owned, int file,
                                      kilni_owned_file *ret_owned);

/* Whether the number still stands for the same file. */
bool kilni_owned_file_is_intact(const kilni_owned_file *owned);

/* Closes it where it is still ours. */
void kilni_owned_file_close(kilni_owned_file *owned);
