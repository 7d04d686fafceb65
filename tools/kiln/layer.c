/* SPDX-License-Identifier: Apache-2.0 */
#include "layer.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"

#define LAYER_FILE "libkiln_opencl_layer.so"

/* Relative to the tool's folder, in the build's folders. */
static const char *const build_places[] = {
    "../../layers/opencl/" LAYER_FILE,
    "../layers/opencl/" LAYER_FILE,
};

/* The folder of this program, with a slash at its end, to be freed; NULL where /proc is away. */
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

/* Why a file may not be loaded into the user's programs, to be freed; NULL where it may. */
static char *reason_against(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        return text_of("%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return text_of("%s is not a regular file", path);
    }
    if (status.st_uid != 0 && status.st_uid != geteuid()) {
        return text_of("%s belongs neither to this user nor to root", path);
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return text_of("%s may be written by others (chmod go-w helps)", path);
    }
    if (strchr(path, ':') != NULL) {
        return text_of("%s has a ':' in its name, which OPENCL_LAYERS can't hold", path);
    }
    return NULL;
}

/* The first place in the build's folders that is there, to be freed; NULL where none is. */
static char *place_in_build(void)
{
    char *folder = own_folder();
    char *found = NULL;
    for (size_t i = 0; folder != NULL && found == NULL && i < 2; i++) {
        char *place = text_of("%s%s", folder, build_places[i]);
        found = realpath(place, NULL);
        free(place);
    }
    free(folder);
    return found;
}

int layer_find(char **ret_path, char **ret_why)
{
    char *path = place_in_build();
    if (path == NULL) {
        path = must(strdup(KILN_LAYER_PATH));
    }
    char *why = reason_against(path);
    if (why != NULL) {
        free(path);
        *ret_why = why;
        return 0;
    }
    *ret_path = path;
    return 1;
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
