/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the directory. Each component is opened without following links, and then checked by its
 * descriptor. So no other user can replace the component between the check and its use. If a
 * component above the last one is a link, this code follows the link itself: it replaces the link
 * in the path by the link's text.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"
#include "store/dir/dir.h"

#define MAX_LINKS 40u

typedef struct path_walk {
    const kilni_path_rules *entrance;
    kiln_error *error;
    int here; /* the present directory, opened with O_PATH */
    bool made;
    unsigned links;
    char remaining[PATH_MAX]; /* the path that is still to be opened; begins with neither '/' nor
                                 "./" */
    char seen[PATH_MAX];      /* the path of the present directory, for messages */
} path_walk;

static const char *skip_empty_components(const char *path)
{
    for (;;) {
        if (path[0] == '/') {
            path++;
        } else if (path[0] == '.' && (path[1] == '/' || path[1] == '\0')) {
            path++;
        } else {
            return path;
        }
    }
}

/* Sets the remaining path to @first, a slash, and @second. */
static bool set_remaining(path_walk *walk, const char *first, const char *second)
{
    char joined[PATH_MAX];
    int length = snprintf(joined, sizeof joined, "%s/%s", first, second);
    if (length < 0 || (size_t)length >= sizeof joined) {
        return false;
    }
    const char *remaining = skip_empty_components(joined);
    memcpy(walk->remaining, remaining, strlen(remaining) + 1);
    return true;
}

static void note_seen(path_walk *walk, const char *name)
{
    size_t length = strlen(walk->seen);
    bool has_slash = length > 0 && walk->seen[length - 1] == '/';
    snprintf(walk->seen + length, sizeof walk->seen - length, "%s%s", has_slash ? "" : "/", name);
}

static kiln_status fail(const path_walk *walk, int system_error)
{
    kiln_status status = kilni_status_from_errno(system_error);
    bool is_odd = status == KILN_EXISTS || status == KILN_BUSY ||
                  (status == KILN_MISS && walk->entrance->may_create);
    if (is_odd) {
        status = KILN_E_IO;
    }
    return kilni_error_set(walk->error, status, system_error, "%s: %s", walk->seen,
                           strerror(system_error));
}

static kiln_status report(const path_walk *walk, kilni_trust trust, const struct stat *stat)
{
    return kilni_trust_report(trust, stat, walk->entrance->user, walk->seen, "a directory",
                              walk->error);
}

/* Returns true if the component that was taken last is the directory itself. */
static bool is_at_last(const path_walk *walk)
{
    return walk->remaining[0] == '\0' && !walk->entrance->is_ancestor;
}

/* Checks a directory. A user with write access to a directory above the store's directory could
 * replace the store's directory by a different directory of the same owner. Such a user could do no
 * other harm. So the directories above must not be writable by everybody, but can be writable by a
 * group, because their owner has chosen the group. The members of a group that can write to a
 * store's directory could do one more harm: with fusermount, they can mount a file system whose
 * server is their own program on a directory to which they can write and that is not sticky. Its
 * server need not answer. So the rules for such a store's directory are stricter. */
static kiln_status judge(const path_walk *walk, const struct stat *stat, bool is_last)
{
    const kilni_path_rules *entrance = walk->entrance;
    if (entrance->any_owner && S_ISDIR(stat->st_mode)) {
        return KILN_OK;
    }
    mode_t refused = is_last ? KILNI_WRITE_BY_OTHERS : S_IWOTH;
    if (entrance->is_of_group) {
        refused = is_last ? 0 : KILNI_WRITE_BY_OTHERS;
    }
    if (!is_last && stat->st_mode & S_ISVTX) {
        refused = 0;
    }
    const bool or_root = entrance->is_readonly || entrance->is_of_group || !is_last;
    return report(walk, kilni_trust_of(stat, S_IFDIR, entrance->user, or_root, refused), stat);
}

static int open_component(int directory, const char *name)
{
    return kilni_os()->openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
}

static void move_to(path_walk *walk, int directory)
{
    kilni_os()->close(walk->here);
    walk->here = directory;
}

static kiln_status start_at_root(path_walk *walk)
{
    int root = kilni_os()->openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (root < 0) {
        return fail(walk, errno);
    }
    kilni_file_close(&walk->here);
    walk->here = root;
    memcpy(walk->seen, "/", 2);
    return KILN_OK;
}

static kiln_status follow_link(path_walk *walk, int link, const struct stat *stat, bool is_last)
{
    if (is_last) {
        return kilni_error_set(walk->error, KILN_E_DENIED, 0, "%s is a symbolic link", walk->seen);
    }
    const kilni_trust trust = kilni_trust_of(stat, S_IFLNK, walk->entrance->user, true, 0);
    if (trust != KILNI_TRUSTED) {
        return report(walk, trust, stat);
    }
    if (++walk->links > MAX_LINKS) {
        return fail(walk, ELOOP);
    }
    char target[PATH_MAX];
    ssize_t length = kilni_os()->readlinkat(link, "", target, sizeof target - 1);
    if (length < 0) {
        return fail(walk, errno);
    }
    target[length] = '\0';
    char remaining[PATH_MAX];
    memcpy(remaining, walk->remaining, strlen(walk->remaining) + 1);
    if (!set_remaining(walk, target, remaining)) {
        return fail(walk, ENAMETOOLONG);
    }
    return target[0] == '/' ? start_at_root(walk) : KILN_OK;
}

int kilni_dir_make_directory(int parent, const char *path)
{
    if (kilni_os()->mkdirat(parent, path, 0700) != 0) {
        return -1;
    }
    int made = kilni_os()->openat(parent, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (made >= 0) {
        kilni_file_ensure_mode(made, 0700);
        kilni_os()->close(made);
    }
    return 0;
}

static int make_component(path_walk *walk, const char *name, bool is_last)
{
    if (kilni_dir_make_directory(walk->here, name) == 0) {
        walk->made = is_last;
    } else if (errno != EEXIST) {
        return -1;
    }
    return open_component(walk->here, name);
}

/* Opens a component without asking a file system that is mounted on it. */
static int open_unmounted(int directory, const char *name)
{
    return kilni_os()->open_within(directory, name, O_PATH | O_CLOEXEC);
}

static kiln_status step(path_walk *walk, const char *name, bool is_last)
{
    int next = is_last && walk->entrance->is_of_group ? open_unmounted(walk->here, name)
                                                      : open_component(walk->here, name);
    if (next < 0 && errno == ENOENT && walk->entrance->may_create) {
        next = make_component(walk, name, is_last);
    }
    int system_error = errno;
    note_seen(walk, name);
    if (next < 0) {
        return fail(walk, system_error);
    }
    struct stat stat;
    kiln_status status;
    if (kilni_os()->fstat(next, &stat) != 0) {
        status = fail(walk, errno);
    } else if (S_ISLNK(stat.st_mode)) {
        status = follow_link(walk, next, &stat, is_last);
    } else {
        status = judge(walk, &stat, is_last);
        if (status == KILN_OK) {
            move_to(walk, next);
            return KILN_OK;
        }
    }
    kilni_os()->close(next);
    return status;
}

/* Moves the next component from the remaining path to @name. */
static bool take_component(path_walk *walk, char name[NAME_MAX + 1])
{
    size_t length = strcspn(walk->remaining, "/");
    if (length > NAME_MAX) {
        return false;
    }
    memcpy(name, walk->remaining, length);
    name[length] = '\0';
    const char *remaining = skip_empty_components(walk->remaining + length);
    memmove(walk->remaining, remaining, strlen(remaining) + 1);
    return true;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Moves to the parent of the present directory and checks it. If the present directory is the root,
 * which is its own parent, this function sets @ret_is_top. */
static kiln_status climb(path_walk *walk, struct stat *stat, bool *ret_is_top)
{
    int above = kilni_os()->openat(walk->here, "..", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (above < 0) {
        return fail(walk, errno);
    }
    note_seen(walk, "..");
    move_to(walk, above);
    struct stat below = *stat;
    if (kilni_os()->fstat(above, stat) != 0) {
        return fail(walk, errno);
    }
    *ret_is_top = is_same_file(&below, stat);
    return judge(walk, stat, false);
}

/* Checks the directories above the present one. This is needed for a relative path, because the
 * walk begins in the middle of the tree. */
static kiln_status judge_upwards(path_walk *walk)
{
    struct stat stat;
    if (kilni_os()->fstat(walk->here, &stat) != 0) {
        return fail(walk, errno);
    }
    kiln_status status = KILN_OK;
    for (bool is_top = false; status == KILN_OK && !is_top;) {
        status = climb(walk, &stat, &is_top);
    }
    return status;
}

static kiln_status start_at(path_walk *walk, int start)
{
    memcpy(walk->seen, ".", 2);
    walk->here = kilni_os()->openat(start, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (walk->here < 0) {
        return fail(walk, errno);
    }
    kiln_status status = judge_upwards(walk);
    if (status != KILN_OK) {
        return status;
    }
    memcpy(walk->seen, ".", 2);
    int here = kilni_os()->openat(start, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (here < 0) {
        return fail(walk, errno);
    }
    move_to(walk, here);
    return KILN_OK;
}

static kiln_status judge_start(const path_walk *walk)
{
    struct stat stat;
    if (kilni_os()->fstat(walk->here, &stat) != 0) {
        return fail(walk, errno);
    }
    return judge(walk, &stat, is_at_last(walk));
}

static kiln_status walk_all(path_walk *walk)
{
    while (walk->remaining[0] != '\0') {
        char name[NAME_MAX + 1];
        kiln_status status = take_component(walk, name) ? step(walk, name, is_at_last(walk))
                                                        : fail(walk, ENAMETOOLONG);
        if (status != KILN_OK) {
            return status;
        }
    }
    return KILN_OK;
}

kiln_status kilni_dir_enter(const char *path, const kilni_path_rules *entrance, int *ret_directory,
                            bool *ret_made, kiln_error *error)
{
    path_walk walk = {.entrance = entrance, .error = error, .here = -1};
    if (!set_remaining(&walk, "", path)) {
        return kilni_error_set(error, KILN_E_INVALID, ENAMETOOLONG, "the path is too long");
    }
    kiln_status status =
        entrance->start < 0 ? start_at_root(&walk) : start_at(&walk, entrance->start);
    if (status == KILN_OK) {
        status = judge_start(&walk);
    }
    if (status == KILN_OK) {
        status = walk_all(&walk);
    }
    int directory = -1;
    if (status == KILN_OK) {
        directory = kilni_os()->openat(walk.here, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
        status = directory < 0 ? fail(&walk, errno) : KILN_OK;
    }
    kilni_file_close(&walk.here);
    if (status == KILN_OK) {
        *ret_directory = directory;
        *ret_made = walk.made;
    }
    return status;
}
