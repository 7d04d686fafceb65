/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps what stat reports about files. This is a cheap way to see whether any of the files might
 * have changed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <kiln/status.h>

typedef struct kilni_file_stamp {
    char *path;
    struct stat facts; /* all zero: no file had this name */
} kilni_file_stamp;

/* A zeroed structure is empty. */
typedef struct kilni_file_stamps {
    kilni_file_stamp *items;
    size_t count;
    size_t capacity;
} kilni_file_stamps;

/* Records what a name refers to now: a file, a folder, or nothing. A folder changes when a name is
 * added to it or removed from it. Returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_file_stamps_add(kilni_file_stamps *stamps, const char *path);

/* Returns true if every name still refers to the same, unchanged file or folder. A name that
 * referred to nothing must still refer to nothing. */
bool kilni_file_stamps_hold(const kilni_file_stamps *stamps);

/* Returns the latest time at which one of the regular files changed or got its name, in nanoseconds
 * of Unix time. Returns 0 if there are no regular files. */
int64_t kilni_file_stamps_changed_ns(const kilni_file_stamps *stamps);

void kilni_file_stamps_done(kilni_file_stamps *stamps);
