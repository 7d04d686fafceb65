/* SPDX-License-Identifier: Apache-2.0 */
#include "os/trust.h"

#include "base/error.h"

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

kiln_status kilni_trust_report(kilni_trust trust, const struct stat *stat, uid_t user,
                               const char *path, const char *kind, kiln_error *error)
{
    switch (trust) {
    case KILNI_OF_OTHER_KIND:
        return kilni_error_set(error, KILN_E_DENIED, 0, "%s is not %s", path, kind);
    case KILNI_OF_OTHER_USER:
        return kilni_error_set(error, KILN_E_DENIED, 0, "%s belongs to user %u, not to %u", path,
                               (unsigned)stat->st_uid, (unsigned)user);
    case KILNI_OPEN_TO_OTHERS:
        return kilni_error_set(error, KILN_E_DENIED, 0, "%s is writable by others (mode %04o)",
                               path, (unsigned)(stat->st_mode & 07777));
    case KILNI_TRUSTED:
        break;
    }
    return KILN_OK;
}

bool kilni_is_trusted(const struct stat *stat, mode_t kind, uid_t user, bool or_root)
{
    return kilni_trust_of(stat, kind, user, or_root, KILNI_WRITE_BY_OTHERS) == KILNI_TRUSTED;
}
