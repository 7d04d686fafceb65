/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides by owner and mode whether a file or folder can be trusted. It is trusted if no other user
 * can have created it, and if no other user can change it.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include <kiln/status.h>

/* The mode bits that let anyone but the owner write. */
#define KILNI_WRITE_BY_OTHERS (S_IWGRP | S_IWOTH)

typedef enum kilni_trust {
    KILNI_TRUSTED,
    KILNI_OF_OTHER_KIND,
    KILNI_OF_OTHER_USER,
    KILNI_OPEN_TO_OTHERS
} kilni_trust;

/* Returns the first reason not to trust an opened file or folder.
 *
 * @kind     S_IFREG, S_IFDIR or S_IFLNK
 * @or_root  root is also accepted as the owner
 * @refused  mode bits that must not be set */
kilni_trust kilni_trust_of(const struct stat *stat, mode_t kind, uid_t user, bool or_root,
                           mode_t refused);

/* Reports why a file or folder is not trusted, in a message that begins with its path. Returns
 * KILN_E_DENIED, or KILN_OK for KILNI_TRUSTED.
 *
 * @kind  what the file or folder must be, such as "a directory"
 * @user  as for kilni_trust_of */
kiln_status kilni_trust_report(kilni_trust trust, const struct stat *stat, uid_t user,
                               const char *path, const char *kind, kiln_error *error);

/* Returns true if only @user can have created the file or folder and can write to it. If @or_root
 * is set, root is allowed too. */
bool kilni_is_trusted(const struct stat *stat, mode_t kind, uid_t user, bool or_root);
