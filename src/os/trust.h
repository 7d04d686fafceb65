/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether other users could have made a file or folder, or may change it.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

/* What only its owner may write. */
#define KILNI_WRITE_BY_OTHERS (S_IWGRP | S_IWOTH)

typedef enum kilni_trust {
    KILNI_TRUSTED,
    KILNI_OF_OTHER_KIND,
    KILNI_OF_OTHER_USER,
    KILNI_OPEN_TO_OTHERS
} kilni_trust;

/* The first reason not to trust what was opened.
 *
 * @kind     S_IFREG, S_IFDIR or S_IFLNK
 * @or_root  root may own it as well as @user
 * @refused  bits of the mode that it must not have */
kilni_trust kilni_trust_of(const struct stat *stat, mode_t kind, uid_t user, bool or_root,
                           mode_t refused);

/* Whether nobody else made it or may write it. */
bool kilni_is_trusted(const struct stat *stat, mode_t kind, uid_t user, bool or_root);
