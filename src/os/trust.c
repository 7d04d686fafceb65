/* SPDX-License-Identifier: Apache-2.0 */
#include "os/trust.h"

kilni_trust kilni_trust_of(const struct stat *stat, mode_t kind, uid_t user, bool or_root,
                           mode_t refused)
{
    if ((stat->st_mode & S_IFMT) != kind) {
        return KILNI_OF_OTHER_KIND;
    }
    if (stat->st_uid != user && !(or_root && stat->st_uid == 0)) {
        return KILNI_OF_OTHER_USER;
    }
    return stat->st_mode & refused ? KILNI_OPEN_TO_OTHERS : KILNI_TRUSTED;
}

bool kilni_is_trusted(const struct stat *stat, mode_t kind, uid_t user, bool or_root)
{
    return kilni_trust_of(stat, kind, user, or_root, KILNI_WRITE_BY_OTHERS) == KILNI_TRUSTED;
}
