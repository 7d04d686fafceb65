/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../text/memory.h"

/* While the sandbox is made, its root is here. */
#define NEW_ROOT "/tmp"

/* ---- namespaces ---- */

static bool write_to(const char *path, const char *text)
{
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const ssize_t size = (ssize_t)strlen(text);
    const bool is_written = file >= 0 && write(file, text, (size_t)size) == size;
    if (file >= 0) {
        close(file);
    }
    return is_written;
}

/* In the new namespace, the process has the same user and group as before. */
static bool enter_namespaces(void)
{
    owned char *users = text_of("%u %u 1", geteuid(), geteuid());
    owned char *groups = text_of("%u %u 1", getegid(), getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) == 0 &&
           write_to("/proc/self/setgroups", "deny") && write_to("/proc/self/uid_map", users) &&
           write_to("/proc/self/gid_map", groups) &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* ---- mounts ---- */

/* What will be mounted at a path. All of it is taken before the new root hides a part of the old
 * one. */
typedef struct taken_tree {
    char *path; /* of the file or folder, absolute */
    int tree;
} taken_tree;

typedef struct taken_trees {
    taken_tree *items;
    size_t count, capacity;
    int error; /* why a tree is missing; 0: all that exist are there */
} taken_trees;

/* glibc has functions for these system calls since 2.36. */

static int clone_tree(const char *path)
{
    return (int)syscall(SYS_open_tree, AT_FDCWD, path,
                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

static bool make_readonly(int tree)
{
    struct mount_attr readonly = {.attr_set = MOUNT_ATTR_RDONLY};
    return syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &readonly,
                   sizeof readonly) == 0;
}

static bool attach_tree(int tree, const char *path)
{
    return syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

/* Takes what is mounted at a path and below it. If nothing is there, does nothing. */
static void take(taken_trees *trees, const char *path)
{
    const int tree = clone_tree(path);
    if (tree >= 0) {
        trees->items =
            array_grown(trees->items, trees->count, &trees->capacity, sizeof *trees->items);
        trees->items[trees->count++] = (taken_tree){must(strdup(path)), tree};
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        trees->error = errno;
    }
}

static void taken_trees_free(taken_trees *trees)
{
    for (size_t i = 0; i < trees->count; i++) {
        close(trees->items[i].tree);
        free(trees->items[i].path);
    }
    free(trees->items);
}

#define owned_trees __attribute__((cleanup(taken_trees_free))) taken_trees

static bool make_folders(const char *path)
{
    owned char *copy = must(strdup(path));
    for (char *slash = strchr(copy + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(copy, 0755);
        *slash = '/';
    }
    return mkdir(copy, 0755) == 0 || errno == EEXIST;
}

/* Makes an empty file or folder for a mount. */
static bool make_place(const char *path, bool is_folder)
{
    if (is_folder) {
        return make_folders(path);
    }
    owned char *folder = must(strdup(path));
    *strrchr(folder, '/') = '\0';
    if (!make_folders(folder)) {
        return false;
    }
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0) {
        close(file);
    }
    return file >= 0 || access(path, F_OK) == 0;
}

/* Mounts a tree, which can't be written to any more. */
static bool mount_tree(int tree, const char *path)
{
    struct stat status;
    return fstat(tree, &status) == 0 && make_place(path, S_ISDIR(status.st_mode)) &&
           make_readonly(tree) && attach_tree(tree, path);
}

/* Mounts the trees below the new root. */
static bool mount_trees(const taken_trees *trees)
{
    bool is_mounted = true;
    for (size_t i = 0; is_mounted && i < trees->count; i++) {
        owned char *path = text_of(NEW_ROOT "%s", trees->items[i].path);
        is_mounted = mount_tree(trees->items[i].tree, path);
    }
    return is_mounted;
}

/* ---- the new root ---- */

/* The links in the root, such as /lib. */
typedef struct root_link {
    char *path, *target;
} root_link;

typedef struct root_children {
    taken_trees trees;
    root_link *links;
    size_t link_count, link_capacity;
} root_children;

static void take_link(root_children *children, const char *path)
{
    char target[PATH_MAX];
    const ssize_t length = readlink(path, target, sizeof target - 1);
    if (length > 0) {
        target[length] = '\0';
        children->links = array_grown(children->links, children->link_count,
                                      &children->link_capacity, sizeof *children->links);
        children->links[children->link_count++] =
            (root_link){text_of(NEW_ROOT "%s", path), must(strdup(target))};
    }
}

static void take_children_of_root(root_children *children)
{
    DIR *root = opendir("/");
    for (struct dirent *child; root != NULL && (child = readdir(root)) != NULL;) {
        owned char *path = text_of("/%s", child->d_name);
        struct stat status;
        if (strcmp(child->d_name, ".") == 0 || strcmp(child->d_name, "..") == 0 ||
            lstat(path, &status) != 0) {
            continue;
        }
        if (S_ISLNK(status.st_mode)) {
            take_link(children, path);
        } else {
            take(&children->trees, path);
        }
    }
    if (root != NULL) {
        closedir(root);
    }
}

/* Makes a root of which this user is the owner, so that a store below it is trusted. */
static bool make_root(root_children *children)
{
    bool is_made = mount("kiln", NEW_ROOT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") == 0 &&
                   mount_trees(&children->trees);
    for (size_t i = 0; i < children->link_count; i++) {
        is_made = is_made && symlink(children->links[i].target, children->links[i].path) == 0;
        free(children->links[i].path);
        free(children->links[i].target);
    }
    free(children->links);
    return is_made;
}

typedef struct home_folders {
    char *paths[2]; /* NULL: none */
} home_folders;

/* Finds the home folders that $HOME and the system's list of users name. */
static home_folders find_homes(void)
{
    const struct passwd *user = getpwuid(getuid());
    const char *const named[] = {getenv("HOME"), user == NULL ? NULL : user->pw_dir};
    home_folders homes = {0};
    for (size_t i = 0; i < 2; i++) {
        char *path = named[i] == NULL ? NULL : realpath(named[i], NULL);
        if (path != NULL && (strcmp(path, "/") == 0 ||
                             (homes.paths[0] != NULL && strcmp(path, homes.paths[0]) == 0))) {
            free(path);
            path = NULL;
        }
        homes.paths[i] = path;
    }
    return homes;
}

static void take_visible(const home_folders *homes, char *const *visible, taken_trees *trees)
{
    for (; *visible != NULL; visible++) {
        for (size_t i = 0; i < 2; i++) {
            const char *home = homes->paths[i];
            const size_t length = home == NULL ? 0 : strlen(home);
            if (home != NULL && strncmp(*visible, home, length) == 0 && (*visible)[length] == '/') {
                take(trees, *visible);
                break;
            }
        }
    }
}

static bool hide_homes(home_folders *homes)
{
    bool are_hidden = true;
    for (size_t i = 0; i < 2; i++) {
        if (homes->paths[i] != NULL) {
            owned char *place = text_of(NEW_ROOT "%s", homes->paths[i]);
            are_hidden =
                are_hidden && mount("kiln", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") == 0;
            free(homes->paths[i]);
        }
    }
    return are_hidden;
}

static bool use_root(void)
{
    return chdir(NEW_ROOT) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
           umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
}

char *sandbox_enter(char *const *visible, const char *cache)
{
    owned_trees shown = {0}, caches = {0};
    root_children children = {0};
    home_folders homes = find_homes();
    bool is_made = enter_namespaces();
    if (is_made) {
        take_children_of_root(&children);
        take_visible(&homes, visible, &shown);
        if (cache != NULL) {
            take(&caches, cache);
        }
        errno = children.trees.error | shown.error | caches.error;
        is_made = errno == 0;
    }
    is_made =
        is_made && make_root(&children) && hide_homes(&homes) && mount_trees(&shown) &&
        mkdir(NEW_ROOT SANDBOX_FOLDER, 0700) == 0 &&
        (caches.count == 0 || mount_tree(caches.items[0].tree, NEW_ROOT SANDBOX_FOLDER "/to")) &&
        use_root();
    char *why = is_made ? NULL : text_of("no private namespaces: %s", strerror(errno));
    taken_trees_free(&children.trees);
    return why;
}

bool sandbox_is_possible(void)
{
    const pid_t child = fork();
    if (child == 0) {
        char *const nothing[] = {NULL};
        _exit(sandbox_enter(nothing, NULL) == NULL ? 0 : 1);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status == 0;
}
