/* SPDX-License-Identifier: Apache-2.0
 *
 * What the file system says of files, to tell at little cost whether any of them may be another by
 * now.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <kiln/status.h>

typedef struct kilni_file_stamp {
    char *path;
    struct stat facts; /* all zero: nothing had this name */
} kilni_file_stamp;

/* Zeroed, it is empty. */
typedef struct kilni_file_stamps {
    kilni_file_stamp *items;
    size_t count;
    size_t capacity;
} kilni_file_stamps;

/* Notes what a name stands for now: a file, a folder with its list of names, or nothing.
 * KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_file_stamps_add(kilni_file_stamps *stamps, const char *path);

/* Whether every name still stands for what it did. */
bool kilni_file_stamps_hold(const kilni_file_stamps *stamps);

/* When one of the regular files changed last, or got its name, in Unix time; 0: there are none. */
int64_t kilni_file_stamps_changed_ns(const kilni_file_stamps *stamps);

void kilni_file_stamps_done(kilni_file_stamps *stamps);
