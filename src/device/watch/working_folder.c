/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/working_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/watch/inputs.h"
#include "os/os.h"

static bool is_same_file(const char *path, const char *other)
{
    struct stat first, second;
    return kilni_os()->fstatat(AT_FDCWD, path, &first, 0) == 0 &&
           kilni_os()->fstatat(AT_FDCWD, other, &second, 0) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

kiln_status kilni_working_folder_find(kilni_working_folder *ret_folder)
{
    const char *variable = getenv("PWD");
    kilni_working_folder found = {.path = getcwd(NULL, 0)};
    if (!found.path) {
        return errno == ENOMEM ? KILN_E_NO_MEMORY : KILN_E_UNSUPPORTED;
    }
    if (variable && *variable == '/' && strcmp(variable, found.path) != 0 &&
        is_same_file(variable, ".")) {
        found.spelled = strdup(variable);
        if (!found.spelled) {
            free(found.path);
            return KILN_E_NO_MEMORY;
        }
    }
    *ret_folder = found;
    return KILN_OK;
}

void kilni_working_folder_done(kilni_working_folder *folder)
{
    free(folder->path);
    free(folder->spelled);
    *folder = (kilni_working_folder){0};
}

/* Returns true if the path lies in the folder, and is not the folder itself. */
static bool is_below(const char *folder, const char *path)
{
    const size_t length = folder ? strlen(folder) : 0;
    const size_t end = length > 0 && folder[length - 1] == '/' ? length - 1 : length;
    return length > 0 && strncmp(path, folder, end) == 0 && path[end] == '/' &&
           path[end + strspn(path + end, "/")] != '\0';
}

bool kilni_working_folder_contains(const kilni_working_folder *folder, const char *path)
{
    return is_below(folder->path, path) || is_below(folder->spelled, path);
}

/* ---- options ---- */

/* Returns true if a component of a path equals this name. Dots at the end of the component are
 * ignored. */
static bool has_name(const char *path, const char *name, size_t length)
{
    for (const char *at = path; (at = strchr(at, '/')) != NULL;) {
        at++;
        size_t own = strcspn(at, "/");
        while (own > 0 && at[own - 1] == '.') {
            own--;
        }
        if (own == length && memcmp(at, name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns true if a word of the options might name the folder or a folder above it. The word can be
 * an option that ends with a path. */
static bool names_folder_above(const char *folder, const char *word, size_t length)
{
    size_t end = length;
    while (end > 0 && (word[end - 1] == '/' || word[end - 1] == '.')) {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && word[begin - 1] != '/') {
        begin--;
    }
    const bool is_root = word[end] == '/' && (end == 0 || (end == 2 && memcmp(word, "-I", 2) == 0));
    return memmem(word + end, length - end, "..", 2) || is_root ||
           (begin > 0 && has_name(folder, word + begin, end - begin));
}

static bool names_folder(const char *folder, const char *options)
{
    /* If the folder's path contains one of these characters, the options might contain the path
     * spread over several words. */
    if (!folder || strpbrk(folder, KILNI_OPTION_BLANKS "\"'\\")) {
        return folder != NULL;
    }
    bool is_named = false;
    for (const char *at = options; *at && !is_named;) {
        const size_t length = strcspn(at, KILNI_OPTION_BLANKS);
        is_named = names_folder_above(folder, at, length);
        at += length + strspn(at + length, KILNI_OPTION_BLANKS);
    }
    return is_named;
}

bool kilni_working_folder_is_named(const kilni_working_folder *folder, const char *options)
{
    return names_folder(folder->path, options) || names_folder(folder->spelled, options);
}
