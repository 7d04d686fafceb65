/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in a directory into which the members of a group may write. The store works like one on a
 * server: whatever a file contains is only bytes, until remote.c has checked a signature of a key
 * that this machine trusts. This folder keeps bytes under names, and does nothing else.
 *
 * Any member of the group can be an attacker, and can create, replace, rename and remove any name
 * in the directory at any time; if the directory is sticky, only the names of the member's own
 * files. The worst effect must be additional builds. That is so because of the following rules. The
 * comment of each file says which of them it keeps.
 *
 * 1. Only root or the user decides which directory is used. It and all directories above it belong
 *    to them, only they can write to those above it, and nothing is mounted on it.
 * 2. No file is used in place. A file is copied to private memory once, and only the copy is
 *    checked and used. So it does not matter if the file changes or shrinks. Nothing is mapped.
 * 3. No call waits for a different user. A file is opened only if it is in the file system of the
 *    directory, since a member can mount a file system that does not answer (FUSE) on a file, and
 *    never through a link. A FIFO or a lease of a file (fcntl) does not block the call. There are
 *    no locks, leases or counters in the directory.
 * 4. The memory for a file is limited before it is allocated.
 * 5. The process changes only names in the directory and files that it has just created. A name is
 *    never a path, and no name is followed. So nothing outside the directory can be changed or
 *    removed, even if a file there is a hard link to a different file of the user.
 * 6. Nothing that a file's owner, times or size say is believed, except to decide what to remove.
 *
 * The directory is opened, and checked, anew by each call. So there is no descriptor that a program
 * could close, and a change of the directory's mode has an effect at once. */
#pragma once

#include <sys/stat.h>

#include "store/engine.h"
#include "store/remote/connector.h"

extern const kilni_store_engine kilni_group_engine;     /* group: */
extern const kilni_connector kilni_group_connector;     /* for tests */
#define KILNI_GROUP_PREFIX "kiln-v1-"                   /* of all names that Kiln uses */
#define KILNI_GROUP_TEMPORARY KILNI_GROUP_PREFIX "new-" /* of the names of temporaries */

/* Opens the directory and checks it. Returns KILN_OK; KILN_E_DENIED; KILN_E_IO; KILN_E_INVALID;
 * KILN_E_NO_MEMORY. @error describes the failure, and how to set the directory right. */
kiln_status kilni_group_enter(const char *path, int *ret_folder, kiln_error *error);

/* Opens a file of the directory, without waiting, following a link, or leaving the file system.
 * Returns KILN_OK: it is a regular file; KILN_MISS: there is no such name; KILN_E_CORRUPT: the name
 * belongs to something that Kiln does not open; KILN_E_IO; KILN_E_NO_MEMORY.
 *
 * @flags  O_RDONLY or O_PATH */
kiln_status kilni_group_open_file(int folder, const char *name, int flags, int *ret_file,
                                  struct stat *ret_stat);

/* If the files that this process is allowed to remove occupy more than @max_bytes, removes those
 * that have been unused for longest, until they occupy an eighth less than that. Also removes
 * temporaries of writers that have ended.
 *
 * @end_ns  a time of kilni_clock_ns, when the function stops in any case */
void kilni_group_make_room(int folder, uint64_t max_bytes, uint64_t end_ns);
