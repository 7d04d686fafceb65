/* SPDX-License-Identifier: Apache-2.0 */
#include "recreate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../text/memory.h"
#include "sandbox.h"

/* Where the content of a folder is while the folder is replaced. */
#define OLD_CONTENT SANDBOX_FOLDER "/old"

/* A folder with more files is not replaced. */
#define CHILDREN_MAX 8192

/* ---- places that stay as they are ---- */

static bool is_below(const char *path, const char *folder)
{
    const size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Folders from which systems load code and settings, and in the sandbox's own folder all except the
 * two that a build gets for its files: the result is stored there. Python's packages, which contain
 * headers, are often below /usr/lib. */
static bool is_of_system(const char *path)
{
    static const char *const folders[] = {"/etc",      "/proc", "/sys",      "/dev",
                                          "/run",      "/boot", "/bin",      "/usr/bin",
                                          "/usr/sbin", "/sbin", "/usr/share"};
    if (is_below(path, SANDBOX_FOLDER)) {
        return !is_below(path, SANDBOX_FOLDER "/program") &&
               !is_below(path, SANDBOX_FOLDER "/work");
    }
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (is_below(path, folders[i])) {
            return true;
        }
    }
    return (fnmatch("/lib*", path, FNM_PATHNAME | FNM_LEADING_DIR) == 0 ||
            fnmatch("/usr/lib*", path, FNM_PATHNAME | FNM_LEADING_DIR) == 0) &&
           fnmatch("/usr/lib/python3*", path, FNM_PATHNAME | FNM_LEADING_DIR) != 0;
}

static bool is_protected(const char *path, char *const *protected)
{
    for (; *protected != NULL; protected ++) {
        if (is_below(path, *protected)) {
            return true;
        }
    }
    return is_of_system(path);
}

static bool is_code(const char *path, const void *bytes, size_t size)
{
    return strstr(strrchr(path, '/'), ".so") != NULL || (size >= 4 && memcmp(bytes,
                                                                             "\x7f"
                                                                             "ELF",
                                                                             4) == 0);
}

/* ---- making room in folders that can't be written to ---- */

/* Puts what was at a path back there. */
static bool put_back(const char *old, const char *path)
{
    char target[PATH_MAX];
    struct stat status;
    if (lstat(old, &status) != 0) {
        return false;
    }
    if (S_ISLNK(status.st_mode)) {
        const ssize_t length = readlink(old, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        return length > 0 && symlink(target, path) == 0;
    }
    const int place = S_ISDIR(status.st_mode) ? mkdir(path, 0755)
                                              : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (place > 0) {
        close(place);
    }
    return place >= 0 && mount(old, path, NULL, MS_BIND | MS_REC, NULL) == 0;
}

static bool put_all_back(const char *folder)
{
    DIR *content = opendir(OLD_CONTENT);
    bool is_back = content != NULL;
    unsigned count = 0;
    for (struct dirent *child; is_back && (child = readdir(content)) != NULL;) {
        if (strcmp(child->d_name, ".") != 0 && strcmp(child->d_name, "..") != 0) {
            owned char *old = text_of(OLD_CONTENT "/%s", child->d_name);
            owned char *path = text_of("%s/%s", folder, child->d_name);
            errno = E2BIG;
            is_back = ++count <= CHILDREN_MAX && put_back(old, path);
        }
    }
    if (content != NULL) {
        const int error = errno;
        closedir(content);
        errno = error;
    }
    return is_back;
}

/* Replaces a folder by one in memory with the same content, which can be written to. The content
 * itself still can't. */
static bool replace(const char *folder)
{
    if ((mkdir(OLD_CONTENT, 0700) != 0 && errno != EEXIST) ||
        mount(folder, OLD_CONTENT, NULL, MS_BIND | MS_REC, NULL) != 0) {
        return false;
    }
    const bool is_replaced =
        mount("kiln", folder, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") == 0 &&
        put_all_back(folder);
    const int error = errno;
    umount2(OLD_CONTENT, MNT_DETACH);
    errno = error;
    return is_replaced;
}

/* ---- making files and folders ---- */

static bool make(const char *path, bool is_folder)
{
    const int made =
        is_folder ? mkdir(path, 0755) : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (made > 0) {
        close(made);
    }
    return made >= 0 || errno == EEXIST;
}

/* Makes an empty file or folder in a folder that exists, and that may be one of the system's. */
static bool make_in_any(const char *folder, const char *path, bool is_folder)
{
    return make(path, is_folder) ||
           ((errno == EROFS || errno == EACCES) && replace(folder) && make(path, is_folder));
}

/* Splits a path after the longest part that exists. Returns the real path of that part; NULL: it is
 * not a folder. Sets @ret_rest to the rest. */
static char *existing_part(const char *path, const char **ret_rest)
{
    owned char *part = must(strdup(path));
    for (char *slash; (slash = strrchr(part, '/')) != NULL;) {
        *slash = '\0';
        struct stat status;
        if (stat(*part == '\0' ? "/" : part, &status) == 0) {
            *ret_rest = path + (slash - part) + 1;
            return S_ISDIR(status.st_mode) ? realpath(*part == '\0' ? "/" : part, NULL) : NULL;
        }
    }
    return NULL;
}

/* Makes what is missing of a path.
 *
 * @existing  a folder; "" for the root
 * @rest      the rest of the path, without ".." */
static bool make_rest(const char *existing, const char *rest, bool is_folder)
{
    owned char *path = text_of("%s/%s", existing, rest);
    bool is_made = true;
    for (size_t at = strlen(existing) + 1; is_made && path[at] != '\0';) {
        const size_t length = strcspn(path + at, "/"),
                     next = at + length + strspn(path + at + length, "/");
        owned char *folder = text_of("%.*s", (int)(at == 1 ? 1 : at - 1), path);
        owned char *child = text_of("%.*s", (int)(at + length), path);
        is_made = make_in_any(folder, child, is_folder || path[next] != '\0');
        at = next;
    }
    return is_made;
}

static char *reason(const char *path, const char *why)
{
    return text_of("%s can't be recreated here: %s", path, why);
}

static bool has_parent(const char *path)
{
    for (; path != NULL; path = strchr(path, '/')) {
        path += *path == '/';
        if (strncmp(path, "..", 2) == 0 && (path[2] == '/' || path[2] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Makes an empty file or folder. Returns its path without links; NULL: sets @ret_why. The caller
 * frees both. */
static char *recreate(const char *path, bool is_folder, char *const *protected, char **ret_why)
{
    const char *rest = "";
    owned char *existing = existing_part(path, &rest);
    if (existing == NULL || has_parent(rest)) {
        *ret_why = reason(path, existing == NULL ? "a part of its path is a file"
                                                 : "its path is not a plain one");
        return NULL;
    }
    if (strcmp(existing, "/") == 0) {
        *existing = '\0';
    }
    char *whole = text_of("%s/%s", existing, rest);
    const char *why = is_protected(whole, protected)
                          ? "the system or the compiler may load what is there"
                      : !make_rest(existing, rest, is_folder) ? strerror(errno)
                                                              : NULL;
    if (why != NULL) {
        *ret_why = reason(path, why);
        free(whole);
        return NULL;
    }
    return whole;
}

char *recreate_folder(const char *path, char *const *protected)
{
    char *why = NULL;
    owned char *made = access(path, F_OK) == 0 ? NULL : recreate(path, true, protected, &why);
    return why;
}

char *recreate_file(const char *path, const void *bytes, size_t size, char *const *protected)
{
    char *why = NULL;
    if (access(path, F_OK) == 0) {
        return NULL;
    }
    if (is_code(path, bytes, size)) {
        return reason(path, "it is code");
    }
    owned char *made = recreate(path, false, protected, &why);
    if (made == NULL) {
        return why;
    }
    const int place = open(made, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *file = place < 0 ? NULL : fdopen(place, "w");
    const bool is_written = file != NULL && fwrite(bytes, 1, size, file) == size;
    if (file != NULL && fclose(file) != 0) {
        return reason(path, strerror(errno));
    }
    return is_written ? NULL : reason(path, strerror(errno));
}
