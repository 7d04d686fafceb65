/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether another user could have created a file or folder, or may change it.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

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
 * @or_root  root may be the owner, as well as @user
 * @refused  mode bits that must not be set */
kilni_trust kilni_trust_of(const struct stat *stat, mode_t kind, uid_t user, bool or_root,
                           mode_t refused);

/* Whether no one else created it or may write to it. */
bool kilni_is_trusted(const struct stat *stat, mode_t kind, uid_t user, bool or_root);
