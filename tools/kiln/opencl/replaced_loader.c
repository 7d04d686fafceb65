/* SPDX-License-Identifier: Apache-2.0 */
#include "replaced_loader.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../text/memory.h"
#include "layer_variables.h"
#include "opencl_drivers.h"
#include "opencl_library.h"
#include "opencl_loader.h"

#define FOLDER_NAME "kiln-loader"
#define NO_CACHES                                                                                  \
    "there is no folder for caches: neither XDG_CACHE_HOME nor HOME is an absolute path"

/* Characters that cannot be in the name of a folder in LD_LIBRARY_PATH. */
#define UNLISTED ":;$"

/* ---- the folder ---- */

/* Returns the path of the user's folder for caches; the caller frees it. NULL if the environment
 * does not name a folder. */
static char *cache_home(void)
{
    const char *caches = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (caches != NULL && caches[0] == '/') {
        return must(strdup(caches));
    }
    return home != NULL && home[0] == '/' ? text_of("%s/.cache", home) : NULL;
}

/* Returns the reason why a folder cannot be used: other users can write to it, or LD_LIBRARY_PATH
 * can't contain its name. The caller frees the reason. NULL if the folder can be used. */
static char *reason_against_folder(const char *folder)
{
    struct stat status;
    if (strpbrk(folder, UNLISTED) != NULL) {
        return text_of("%s can't be in LD_LIBRARY_PATH: its name contains one of " UNLISTED,
                       folder);
    }
    if (lstat(folder, &status) != 0) {
        return text_of("%s: %s", folder, strerror(errno));
    }
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return text_of("%s must be a folder that only this user may write", folder);
    }
    return NULL;
}

static bool is_link_to(const char *link, const char *loader)
{
    owned char *target = realpath(link, NULL);
    return target != NULL && strcmp(target, loader) == 0;
}

/* If other processes make the same link at the same time, the link that was made last stays. */
static bool make_link(const char *folder, const char *link, const char *loader)
{
    owned char *temporary = text_of("%s/.%ld", folder, (long)getpid());
    unlink(temporary);
    bool is_made = symlink(loader, temporary) == 0 && rename(temporary, link) == 0;
    if (!is_made) {
        int error = errno;
        unlink(temporary);
        errno = error;
    }
    return is_made;
}

/* Returns why the folder could not be used; the caller frees the text. NULL if the folder could be
 * used. Does not create anything. The folder and the folder for caches need not exist. */
static char *reason_against_making(const char *folder, const char *caches)
{
    struct stat status;
    if (lstat(folder, &status) == 0 || errno != ENOENT || strpbrk(folder, UNLISTED) != NULL) {
        return reason_against_folder(folder);
    }
    const char *slash = strrchr(caches, '/');
    owned char *above = text_of("%.*s/", (int)(slash - caches), caches);
    const bool can_be_made =
        access(caches, W_OK | X_OK) == 0 || (errno == ENOENT && access(above, W_OK | X_OK) == 0);
    return can_be_made ? NULL : text_of("%s: %s", folder, strerror(errno));
}

/* Creates the folder if it is missing. Returns the folder's path. If this fails, returns NULL and
 * stores the reason. The caller frees the path or the reason. */
static char *own_folder(char **ret_why)
{
    owned char *caches = cache_home();
    if (caches == NULL) {
        *ret_why = must(strdup(NO_CACHES));
        return NULL;
    }
    char *folder = text_of("%s/" FOLDER_NAME, caches);
    mkdir(caches, 0700);
    mkdir(folder, 0700);
    *ret_why = reason_against_folder(folder);
    if (*ret_why != NULL) {
        free(folder);
        return NULL;
    }
    return folder;
}

/* Makes the link if it is missing. If this fails, returns the reason, which the caller frees. NULL
 * if the link exists. */
static char *put_link(const char *folder, const char *loader)
{
    owned char *link = text_of("%s/" OPENCL_LIBRARY, folder);
    bool is_there = is_link_to(link, loader) || make_link(folder, link, loader);
    return is_there ? NULL : text_of("%s: %s", link, strerror(errno));
}

/* ---- the environment ---- */

static char *set_drivers(const char *replacement, const char *found, const char *folder)
{
    char *why = NULL;
    owned char *drivers = loader_drivers(replacement, found, folder, &why);
    if (drivers != NULL) {
        must_succeed(setenv(OPENCL_VENDORS_VARIABLE, drivers, 1));
    }
    return why;
}

char *loader_drivers(const char *replacement, const char *found, const char *folder, char **ret_why)
{
    const char *libraries = getenv(OPENCL_LIST_VARIABLE);
    if (libraries == NULL || libraries[0] == '\0' ||
        !opencl_loader_reads(found, OPENCL_LIST_VARIABLE) ||
        opencl_loader_reads(replacement, OPENCL_LIST_VARIABLE)) {
        return NULL;
    }
    opencl_drivers drivers = opencl_drivers_find(libraries, getenv(OPENCL_VENDORS_VARIABLE));
    opencl_drivers_keep_each_once(&drivers);
    char *made = opencl_drivers_folder(&drivers, folder, ret_why);
    opencl_drivers_done(&drivers);
    return made;
}

char *loader_environment_obstacle(void)
{
    owned char *caches = cache_home();
    if (caches == NULL) {
        return must(strdup(NO_CACHES));
    }
    owned char *folder = text_of("%s/" FOLDER_NAME, caches);
    return reason_against_making(folder, caches);
}

char *loader_environment_set(const char *replacement, const char *found)
{
    static const char variable[] = "LD_LIBRARY_PATH";
    char *why = NULL;
    owned char *folder = own_folder(&why);
    if (folder != NULL) {
        why = put_link(folder, replacement);
    }
    if (why == NULL) {
        why = set_drivers(replacement, found, folder);
    }
    if (why == NULL) {
        owned char *list = layer_list_with(folder, getenv(variable));
        must_succeed(setenv(variable, list, 1));
    }
    return why;
}
