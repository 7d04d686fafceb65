/* SPDX-License-Identifier: Apache-2.0 */
#include "opencl_drivers.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kiln/key.h>

#include "../text/memory.h"

#define SYSTEM_VENDORS "/etc/OpenCL/vendors"
#define SUFFIX ".icd"

/* ---- which drivers ---- */

static void add_driver(opencl_drivers *drivers, const char *library)
{
    drivers->libraries =
        must(reallocarray(drivers->libraries, drivers->count + 1, sizeof *drivers->libraries));
    drivers->libraries[drivers->count++] = must(strdup(library));
}

static void add_listed(opencl_drivers *drivers, const char *libraries)
{
    owned char *names = must(strdup(libraries));
    char *rest = names;
    for (char *name; (name = strsep(&rest, ":")) != NULL;) {
        if (name[0] != '\0') {
            add_driver(drivers, name);
        }
    }
}

/* Reads only the first line of the file, as loaders do. */
static void add_named_in_file(opencl_drivers *drivers, const char *path)
{
    FILE *file = fopen(path, "re");
    owned char *line = NULL;
    size_t room = 0;
    if (file != NULL && getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        add_driver(drivers, line);
    }
    if (file != NULL) {
        fclose(file);
    }
}

static int is_icd_file(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return length > strlen(SUFFIX) && strcmp(entry->d_name + length - strlen(SUFFIX), SUFFIX) == 0;
}

static void add_named_in_folder(opencl_drivers *drivers, const char *folder)
{
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_icd_file, alphasort);
    for (int i = 0; i < count; i++) {
        owned char *path = text_of("%s/%s", folder, entries[i]->d_name);
        add_named_in_file(drivers, path);
        free(entries[i]);
    }
    free(entries);
}

opencl_drivers opencl_drivers_find(const char *libraries, const char *vendors)
{
    opencl_drivers drivers = {0};
    add_listed(&drivers, libraries == NULL ? "" : libraries);
    add_named_in_folder(&drivers, vendors != NULL && vendors[0] != '\0' ? vendors : SYSTEM_VENDORS);
    return drivers;
}

void opencl_drivers_done(opencl_drivers *drivers)
{
    for (size_t i = 0; i < drivers->count; i++) {
        free(drivers->libraries[i]);
    }
    free(drivers->libraries);
}

/* ---- removing duplicates ---- */

/* Returns the length of the first part of a library's name, which is the same in all versions of
 * the library. */
static size_t stem_length(const char *library)
{
    const char *end = strstr(library, ".so");
    return end == NULL ? strlen(library) : (size_t)(end - library);
}

static const char *base_of(const char *library)
{
    const char *slash = strrchr(library, '/');
    return slash == NULL ? library : slash + 1;
}

/* Returns true if two names lead to the same library. The library's platform would otherwise be
 * listed twice. Loads the libraries only if their names are not enough to find this out. The
 * libraries stay loaded, since some cannot be closed safely. */
static bool is_same_library(const char *one, const char *other)
{
    if (strcmp(one, other) == 0) {
        return true;
    }
    const size_t length = stem_length(base_of(one));
    if (length != stem_length(base_of(other)) ||
        strncmp(base_of(one), base_of(other), length) != 0) {
        return false;
    }
    void *first = dlopen(one, RTLD_LAZY | RTLD_LOCAL);
    return first != NULL && first == dlopen(other, RTLD_LAZY | RTLD_LOCAL);
}

static bool is_among(char *const *libraries, size_t count, const char *library)
{
    for (size_t i = 0; i < count; i++) {
        if (is_same_library(libraries[i], library)) {
            return true;
        }
    }
    return false;
}

void opencl_drivers_keep_each_once(opencl_drivers *drivers)
{
    size_t kept = 0;
    for (size_t i = 0; i < drivers->count; i++) {
        if (is_among(drivers->libraries, kept, drivers->libraries[i])) {
            free(drivers->libraries[i]);
        } else {
            drivers->libraries[kept++] = drivers->libraries[i];
        }
    }
    drivers->count = kept;
}

/* ---- their folder ---- */

/* Returns a name that depends only on the drivers; the caller frees it. */
static char *name_of(const opencl_drivers *drivers)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    char text[KILN_DIGEST_TEXT_SIZE];
    must_succeed(kiln_key_builder_new(&builder));
    for (size_t i = 0; i < drivers->count; i++) {
        kiln_key_builder_add_text(builder, "driver", drivers->libraries[i]);
    }
    must_succeed(kiln_key_builder_finish(builder, &key));
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    kiln_key_release(&key);
    kiln_key_builder_free(&builder);
    return text_of("drivers-%s", text);
}

static bool write_file(const char *path, const char *library)
{
    FILE *file = fopen(path, "wxe");
    const bool is_written = file != NULL && fprintf(file, "%s\n", library) > 0;
    return file != NULL && fclose(file) == 0 && is_written;
}

static bool fill_folder(const char *folder, const opencl_drivers *drivers)
{
    bool is_filled = true;
    for (size_t i = 0; is_filled && i < drivers->count; i++) {
        owned char *path = text_of("%s/%zu" SUFFIX, folder, i);
        is_filled = write_file(path, drivers->libraries[i]);
    }
    return is_filled;
}

static void remove_folder(const char *folder)
{
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_icd_file, NULL);
    for (int i = 0; i < count; i++) {
        owned char *path = text_of("%s/%s", folder, entries[i]->d_name);
        unlink(path);
        free(entries[i]);
    }
    free(entries);
    rmdir(folder);
}

static bool is_folder(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Makes the folder in one atomic step, so that other processes can make the same folder at the same
 * time. Returns NULL if the folder exists after that. Otherwise returns the reason, which the
 * caller frees. */
static char *make_folder(const char *folder, const char *parent, const opencl_drivers *drivers)
{
    if (is_folder(folder)) {
        return NULL;
    }
    owned char *temporary = text_of("%s/.XXXXXX", parent);
    if (mkdtemp(temporary) == NULL) {
        return text_of("%s: %s", temporary, strerror(errno));
    }
    if (fill_folder(temporary, drivers) && rename(temporary, folder) == 0) {
        return NULL;
    }
    const int error = errno;
    remove_folder(temporary);
    return is_folder(folder) ? NULL : text_of("%s: %s", folder, strerror(error));
}

char *opencl_drivers_folder(const opencl_drivers *drivers, const char *parent, char **ret_why)
{
    owned char *name = name_of(drivers);
    owned char *folder = text_of("%s/%s", parent, name);
    *ret_why = make_folder(folder, parent, drivers);
    return *ret_why == NULL ? must(strdup(folder)) : NULL;
}
