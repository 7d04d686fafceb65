/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/path_lookup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "base/text.h"
#include "device/file_content.h"
#include "device/watch/content_digest.h"
#include "os/file.h"
#include "os/os.h"

enum { MAX_FILE_BYTES = 64 << 20, MAX_NAMES = 4096 };

static void describe_file(const kilni_file_content *file, kilni_path_facts *ret_facts)
{
    ret_facts->what = KILN_FOUND_FILE;
    ret_facts->size = file->size;
    ret_facts->device = file->device;
    ret_facts->inode = file->inode;
    ret_facts->changed = file->changed;
    kilni_content_digest(file->bytes, file->size, ret_facts->digest);
}

static bool find_folder(const char *path, kilni_path_facts *ret_facts)
{
    struct stat found;
    if (kilni_os()->fstatat(AT_FDCWD, path, &found, 0) != 0 || !S_ISDIR(found.st_mode)) {
        return false;
    }
    ret_facts->what = KILN_FOUND_FOLDER;
    ret_facts->device = found.st_dev;
    ret_facts->inode = found.st_ino;
    return true;
}

static kiln_status find_content(const char *path, kilni_content_fn *scan, void *user,
                                kilni_path_facts *ret_facts)
{
    kilni_file_content file;
    const kiln_status status = kilni_file_content_read(path, MAX_FILE_BYTES, &file);
    if (status == KILN_OK) {
        describe_file(&file, ret_facts);
        if (scan) {
            scan(user, ret_facts, file.bytes);
        }
        kilni_file_content_done(&file);
    } else if (status == KILN_MISS) {
        ret_facts->what = KILN_FOUND_NOTHING;
    } else if (status != KILN_E_DENIED || !find_folder(path, ret_facts)) {
        return status == KILN_E_NO_MEMORY ? status : KILN_E_UNSUPPORTED;
    }
    return KILN_OK;
}

kiln_status kilni_path_describe(const struct stat *found, int error, kilni_path_facts *ret_facts)
{
    if (!found) {
        *ret_facts = (kilni_path_facts){.what = KILN_FOUND_NOTHING};
        return kilni_status_from_errno(error) == KILN_MISS ? KILN_OK : KILN_E_UNSUPPORTED;
    }
    *ret_facts =
        (kilni_path_facts){.what = S_ISREG(found->st_mode) ? KILN_FOUND_FILE : KILN_FOUND_FOLDER,
                           .device = found->st_dev,
                           .inode = found->st_ino,
                           .size = (uint64_t)found->st_size,
                           .digest = {found->st_mode & 0xff, found->st_mode >> 8 & 0xff},
                           .changed = found->st_ctim};
    return S_ISREG(found->st_mode) || S_ISDIR(found->st_mode) ? KILN_OK : KILN_E_UNSUPPORTED;
}

static kiln_status find_facts(const char *path, kilni_path_facts *ret_facts)
{
    struct stat found;
    const bool exists = kilni_os()->fstatat(AT_FDCWD, path, &found, 0) == 0;
    return kilni_path_describe(exists ? &found : NULL, errno, ret_facts);
}

static kiln_status find_link(const char *path, kiln_finding *ret_what, char *ret_target)
{
    const ssize_t length = kilni_os()->readlinkat(AT_FDCWD, path, ret_target, PATH_MAX - 1);
    if (length < 0) {
        *ret_what = KILN_FOUND_NOTHING;
        return errno == EINVAL || kilni_status_from_errno(errno) == KILN_MISS ? KILN_OK
                                                                              : KILN_E_UNSUPPORTED;
    }
    *ret_what = KILN_FOUND_LINK;
    ret_target[length] = '\0';
    return KILN_OK;
}

static kiln_status find_real_path(const char *path, kiln_finding *ret_what, char *ret_target)
{
    if (!realpath(path, ret_target)) {
        *ret_what = KILN_FOUND_NOTHING;
        return kilni_status_from_errno(errno) == KILN_MISS ? KILN_OK : KILN_E_UNSUPPORTED;
    }
    *ret_what = KILN_FOUND_LINK;
    return KILN_OK;
}

/* Returns how many components a path has after its last "..". */
static size_t count_names(const char *path)
{
    size_t count = 0;
    for (const char *at = path + strspn(path, "/"); *at; at += strspn(at, "/")) {
        const size_t length = strcspn(at, "/");
        const bool is_dots = *at == '.' && (length == 1 || (length == 2 && at[1] == '.'));
        count = !is_dots ? count + 1 : length == 2 ? 0 : count;
        at += length;
    }
    return count;
}

static kiln_status find_real_names(const char *path, kiln_finding *ret_what, char *ret_target)
{
    const kiln_status status = find_real_path(path, ret_what, ret_target);
    if (status == KILN_OK && *ret_what == KILN_FOUND_LINK) {
        char *at = ret_target + strlen(ret_target);
        for (size_t left = count_names(path); at > ret_target; at--) {
            if (*at == '/' && left-- <= 1) {
                break;
            }
        }
        memmove(ret_target, at, strlen(at) + 1);
    }
    return status;
}

/* ---- the names in a folder ---- */

typedef struct listing {
    char **names; /* a folder's name ends with a slash */
    size_t count;
} listing;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static kiln_status read_names(DIR *folder, listing *ret_listing)
{
    const struct dirent *each;
    kiln_status status = KILN_OK;
    ret_listing->names = malloc(MAX_NAMES * sizeof *ret_listing->names);
    if (!ret_listing->names) {
        return KILN_E_NO_MEMORY;
    }
    errno = 0; /* readdir returns NULL both at the end and on failure */
    while (status == KILN_OK && (each = kilni_os()->readdir(folder)) != NULL) {
        kilni_text name = {0};
        status =
            ret_listing->count == MAX_NAMES
                ? KILN_E_UNSUPPORTED
                : kilni_text_printf(&name, "%s%s", each->d_name, each->d_type == DT_DIR ? "/" : "");
        if (status == KILN_OK) {
            ret_listing->names[ret_listing->count++] = name.bytes;
        }
        errno = 0;
    }
    return status == KILN_OK && errno != 0 ? KILN_E_UNSUPPORTED : status;
}

static void digest_names(const listing *names, char *ret_digest)
{
    unsigned char digest[KILNI_FILE_DIGEST_BYTES];
    crypto_generichash_state state;
    qsort(names->names, names->count, sizeof *names->names, compare_names);
    crypto_generichash_init(&state, NULL, 0, sizeof digest);
    for (size_t i = 0; i < names->count; i++) {
        crypto_generichash_update(&state, (const unsigned char *)names->names[i],
                                  strlen(names->names[i]) + 1);
    }
    crypto_generichash_final(&state, digest, sizeof digest);
    sodium_bin2hex(ret_digest, 2 * sizeof digest + 1, digest, sizeof digest);
}

static void listing_done(listing *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->names[i]);
    }
    free(names->names);
}

/* Closes @file. */
static kiln_status find_names(int file, kilni_path_facts *ret_facts, char *ret_digest)
{
    struct stat found;
    listing names = {0};
    DIR *folder = kilni_os()->fstat(file, &found) == 0 ? kilni_os()->fdopendir(file) : NULL;
    if (!folder) {
        kilni_os()->close(file);
        return KILN_E_UNSUPPORTED;
    }
    const kiln_status status = read_names(folder, &names);
    kilni_os()->closedir(folder);
    if (status == KILN_OK) {
        *ret_facts = (kilni_path_facts){.what = KILN_FOUND_FOLDER,
                                        .device = found.st_dev,
                                        .inode = found.st_ino,
                                        .changed = found.st_ctim};
        digest_names(&names, ret_digest);
    }
    listing_done(&names);
    return status;
}

static kiln_status find_listing(const char *path, kilni_path_facts *ret_facts, char *ret_digest)
{
    const int file = kilni_os()->openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (file >= 0) {
        return find_names(file, ret_facts, ret_digest);
    }
    ret_facts->what = KILN_FOUND_NOTHING;
    return kilni_status_from_errno(errno) == KILN_MISS ? KILN_OK : KILN_E_UNSUPPORTED;
}

kiln_status kilni_path_look_up(kilni_lookup lookup, const char *path, kilni_content_fn *scan,
                               void *user, kilni_path_facts *ret_facts, char ret_target[PATH_MAX])
{
    switch (lookup) {
    case KILNI_LOOKUP_CONTENT:
        return find_content(path, scan, user, ret_facts);
    case KILNI_LOOKUP_LINK:
        return find_link(path, &ret_facts->what, ret_target);
    case KILNI_LOOKUP_REAL_PATH:
        return find_real_path(path, &ret_facts->what, ret_target);
    case KILNI_LOOKUP_REAL_NAMES:
        return find_real_names(path, &ret_facts->what, ret_target);
    case KILNI_LOOKUP_LISTING:
        return find_listing(path, ret_facts, ret_target);
    case KILNI_LOOKUP_FACTS:
        return find_facts(path, ret_facts);
    }
    return KILN_E_CORRUPT;
}
