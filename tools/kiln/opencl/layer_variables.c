/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_variables.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../text/memory.h"

#define PLACES 3

/* A file that is loaded into the user's programs. */
typedef struct layer_place {
    /* Patterns relative to the tool's folder: places in an installation, and the last one in the
     * build folder. */
    const char *paths[PLACES];
    const char *list; /* the variable that names the library */
} layer_place;

static const layer_place opencl_place = {
    .paths = {KILN_LAYERS_FROM_TOOL "/libkiln_opencl_layer.so", NULL,
              "../../layers/opencl/libkiln_opencl_layer.so"},
    .list = "OPENCL_LAYERS",
};

static const layer_place nvrtc_place = {
    .paths = {KILN_LAYERS_FROM_TOOL "/libkiln_nvrtc_audit.so", NULL,
              "../../layers/nvrtc/libkiln_nvrtc_audit.so"},
    .list = "LD_AUDIT",
};

static const layer_place python_place = {
    /* pip decides where the package lies below the prefix. */
    .paths = {KILN_PYTHON_FROM_TOOL "/kiln/inject/sitecustomize.py",
              "../lib/python3*/site-packages/kiln/inject/sitecustomize.py",
              "../../python/kiln/inject/sitecustomize.py"},
    .list = "PYTHONPATH",
};

/* Returns the path of this program's folder, with a final slash. The caller frees it. NULL if there
 * is no /proc. */
static char *own_folder(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) {
        return NULL;
    }
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    return slash == NULL ? NULL : text_of("%.*s", (int)(slash + 1 - path), path);
}

/* Returns the reason why a file or folder of this status must not be used, or NULL. */
static char *reason_against_owner(const char *path, const struct stat *status)
{
    if (status->st_uid != 0 && status->st_uid != geteuid()) {
        return text_of("%s belongs neither to this user nor to root", path);
    }
    if ((status->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return text_of("%s is writable by others (chmod go-w prevents that)", path);
    }
    return NULL;
}

char *library_reason_against(const char *path, const char *list)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        return text_of("%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return text_of("%s is not a regular file", path);
    }
    char *why = reason_against_owner(path, &status);
    if (why != NULL) {
        return why;
    }
    if (strchr(path, ':') != NULL) {
        return text_of("%s has a ':' in its name, which %s can't contain", path, list);
    }
    return NULL;
}

/* Returns the first of the library's places at which there is a file; the caller frees it. NULL if
 * there is no such file. */
static char *existing_place(const layer_place *place)
{
    owned char *folder = own_folder();
    char *found = NULL;
    for (size_t i = 0; folder != NULL && found == NULL && i < PLACES; i++) {
        owned char *pattern = place->paths[i] ? text_of("%s%s", folder, place->paths[i]) : NULL;
        glob_t paths = {0};
        if (pattern != NULL && glob(pattern, 0, NULL, &paths) == 0) {
            found = realpath(paths.gl_pathv[0], NULL);
        }
        globfree(&paths);
    }
    return found;
}

char *layer_find(char **ret_path)
{
    owned char *path = existing_place(&opencl_place);
    if (path == NULL) {
        owned char *folder = own_folder();
        return text_of("%s%s: %s", folder != NULL ? folder : "", opencl_place.paths[0],
                       folder != NULL ? strerror(ENOENT) : "there is no /proc");
    }
    char *why = library_reason_against(path, opencl_place.list);
    if (why == NULL) {
        *ret_path = must(strdup(path));
    }
    return why;
}

/* Returns why the layer must not be loaded, or NULL. The audit library loads this layer from its
 * own folder. */
static char *reason_against_layer_of(const char *audit_path)
{
    const char *slash = strrchr(audit_path, '/');
    owned char *path =
        text_of("%.*s/libkiln_nvrtc_layer.so", (int)(slash - audit_path), audit_path);
    return library_reason_against(path, nvrtc_place.list);
}

char *nvrtc_audit_find(char **ret_path)
{
    owned char *path = existing_place(&nvrtc_place);
    *ret_path = NULL;
    if (path == NULL) {
        return NULL;
    }
    char *why = library_reason_against(path, nvrtc_place.list);
    if (why == NULL) {
        why = reason_against_layer_of(path);
    }
    if (why == NULL) {
        *ret_path = must(strdup(path));
    }
    return why;
}

static char *reason_against_tree(const char *path);

/* Returns the reason against what is in a folder, or NULL. */
static char *reason_against_content(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return text_of("%s: %s", path, strerror(errno));
    }
    char *why = NULL;
    for (const struct dirent *item; why == NULL && (item = readdir(folder)) != NULL;) {
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0) {
            owned char *below = text_of("%s/%s", path, item->d_name);
            why = reason_against_tree(below);
        }
    }
    closedir(folder);
    return why;
}

/* Returns the reason against a file, or a folder and all that it has, or NULL. Links are followed
 * to files, not to folders. */
static char *reason_against_tree(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0) {
        return text_of("%s: %s", path, strerror(errno));
    }
    const bool is_folder = S_ISDIR(status.st_mode);
    if (S_ISLNK(status.st_mode) && stat(path, &status) != 0) {
        return NULL; /* it leads to nothing that could be loaded */
    }
    char *why = reason_against_owner(path, &status);
    return why == NULL && is_folder ? reason_against_content(path) : why;
}

char *python_folder_find(char **ret_path)
{
    owned char *path = existing_place(&python_place);
    *ret_path = NULL;
    if (path == NULL) {
        return NULL;
    }
    char *why = library_reason_against(path, python_place.list);
    if (why != NULL) {
        return why;
    }
    owned char *folder = text_of("%.*s", (int)(strrchr(path, '/') - path), path);
    owned char *package = text_of("%.*s", (int)(strrchr(folder, '/') - folder), folder);
    why = reason_against_tree(package);
    if (why == NULL) {
        *ret_path = must(strdup(folder));
    }
    return why;
}

static bool list_has(const char *list, const char *path)
{
    size_t length = strlen(path);
    for (const char *next = list; *next != '\0';) {
        size_t size = strcspn(next, ":");
        if (size == length && strncmp(next, path, size) == 0) {
            return true;
        }
        next += size + (next[size] == ':');
    }
    return false;
}

char *layer_list_with(const char *path, const char *others)
{
    if (others == NULL || others[0] == '\0') {
        return must(strdup(path));
    }
    if (list_has(others, path)) {
        return must(strdup(others));
    }
    return text_of("%s:%s", path, others);
}
