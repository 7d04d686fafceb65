/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/changed_files.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "device/watch/inputs.h"
#include "device/watch/path_lookup.h"
#include "device/watch/stored_reads.h"

/* A file or a folder that was found during this check. */
typedef struct seen_file {
    dev_t device;
    ino_t inode;
    uint32_t index;
} seen_file;

typedef struct comparison {
    const char *folder; /* of the program's name; not terminated by a zero byte */
    size_t folder_length;
    seen_file *files;
    size_t count;
    bool is_partial;    /* one of the reads can't be checked, so the list of files is incomplete */
    const char *path;   /* the last path that was checked */
    kiln_read_fn visit; /* called for each read; NULL: stop at the first difference */
    void *user;
    bool is_ended; /* by the visitor */
} comparison;

static comparison comparison_for(const char *name)
{
    return (comparison){.folder = name ? name : "",
                        .folder_length = kilni_program_folder_length(name)};
}

/* ---- one read ---- */

static uint32_t first_seen(comparison *c, uint32_t index, const kilni_path_facts *now)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->files[i].device == now->device && c->files[i].inode == now->inode) {
            return c->files[i].index;
        }
    }
    c->files[c->count++] = (seen_file){.device = now->device, .inode = now->inode, .index = index};
    return index;
}

/* Compares the identity of a file or a folder, and the content of a file. */
static kiln_status compare_file(comparison *c, uint32_t index, const kilni_stored_read *read,
                                const kilni_path_facts *now)
{
    const bool is_same_file = read->same == first_seen(c, index, now);
    if (read->what == KILN_FOUND_FILE &&
        (read->size != now->size || memcmp(read->digest, now->digest, sizeof now->digest) != 0)) {
        return KILN_MISS;
    }
    return is_same_file ? KILN_OK : c->is_partial ? KILN_E_UNSUPPORTED : KILN_MISS;
}

/* Returns the full path of a read for this program, or NULL if memory runs out. An empty path
 * stands for the program's folder, without the slash that c->folder_length counts. */
static char *path_of(const comparison *c, const kilni_stored_read *read)
{
    const size_t size = strlen(read->path) + 1, slash = size == 1 ? 1 : 0,
                 before = read->is_relative ? c->folder_length - slash : 0;
    char *joined = malloc(before + size);
    if (joined) {
        if (before > 0) {
            memcpy(joined, c->folder, before);
        }
        memcpy(joined + before, read->path, size);
    }
    return joined;
}

static kiln_status look_up(const comparison *c, const kilni_stored_read *read,
                           kilni_path_facts *ret_facts, char *ret_target)
{
    if (read->is_relative && c->folder_length == 0) {
        return KILN_E_UNSUPPORTED;
    }
    char *path = path_of(c, read);
    const kiln_status status =
        path ? kilni_path_look_up(read->lookup, path, NULL, NULL, ret_facts, ret_target)
             : KILN_E_NO_MEMORY;
    free(path);
    return status;
}

/* Returns KILN_OK: the read is unchanged; KILN_MISS: it has changed; KILN_E_UNSUPPORTED: it cannot
 * be determined whether it has changed. */
static kiln_status compare(comparison *c, uint32_t index, const kilni_stored_read *read,
                           kiln_finding *ret_found)
{
    kilni_path_facts now = {0};
    char target[PATH_MAX];
    const kiln_status status = look_up(c, read, &now, target);
    if (status != KILN_OK) {
        c->is_partial = true;
        return status;
    }
    *ret_found = now.what;
    if (read->what != now.what) {
        return KILN_MISS;
    }
    if (kilni_finding_has_identity(read->what)) {
        const kiln_status compared = compare_file(c, index, read, &now);
        if (compared != KILN_OK) {
            return compared;
        }
    }
    return !kilni_lookup_has_target(read->lookup, read->what) || strcmp(read->target, target) == 0
               ? KILN_OK
               : KILN_MISS;
}

/* Returns true if a read ties the result to the working directory: see read_files.c. */
static bool is_tie(const kilni_stored_read *read)
{
    return read->lookup == KILNI_LOOKUP_REAL_PATH && read->what == KILN_FOUND_LINK &&
           strcmp(read->path, ".") == 0;
}

/* Checks a read, and reports it to the visitor. Without a visitor, returns KILN_MISS if the read
 * has changed or cannot be checked. */
static kiln_status visit_read(comparison *c, uint32_t index, const kilni_stored_read *read)
{
    kiln_finding found_now = 0;
    const kiln_status now = compare(c, index, read, &found_now);
    c->path = read->path;
    if (now != KILN_OK && now != KILN_MISS && now != KILN_E_UNSUPPORTED) {
        return now;
    }
    if (!c->visit) {
        return now == KILN_OK ? KILN_OK : KILN_MISS;
    }
    const bool ties = is_tie(read);
    const bool is_folder = read->is_relative && *read->path == '\0';
    const kiln_read told = {.path = ties        ? read->target
                                    : is_folder ? "."
                                                : read->path,
                            .found = ties ? KILN_ONLY_FOR_PROCESS_IN : read->what,
                            .relative_to_program = read->is_relative,
                            .size = read->size,
                            .now = now,
                            .found_now = ties ? 0 : found_now,
                            .place = index,
                            .same = read->same,
                            .digest = read->digest};
    c->is_ended = c->visit(c->user, &told) != 0;
    return KILN_OK;
}

/* ---- all reads ---- */

static bool is_program_folder(const comparison *c, const char *path)
{
    return strlen(path) == c->folder_length && memcmp(path, c->folder, c->folder_length) == 0;
}

static kiln_status compare_reads(comparison *c, kilni_byte_reader *reader, uint32_t count)
{
    c->files = malloc((count + 1) * sizeof *c->files);
    kiln_status status = c->files ? KILN_OK : KILN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count && status == KILN_OK && !c->is_ended; i++) {
        kilni_stored_read read;
        status = kilni_stored_reads_decode_next(reader, &read);
        if (status == KILN_OK) {
            status = visit_read(c, i, &read);
        }
    }
    free(c->files);
    return status == KILN_OK && !c->is_ended && reader->left != 0 ? KILN_E_CORRUPT : status;
}

kiln_status kilni_reads_hold(kiln_bytes encoded, const char *name, const char **ret_changed)
{
    kilni_byte_reader reader = {.at = encoded.data, .left = encoded.size};
    comparison c = comparison_for(name);
    const char *only_folder = NULL;
    uint32_t count = 0;
    kiln_status status = kilni_stored_reads_decode_header(&reader, &only_folder, &count);
    if (status == KILN_OK && only_folder && !is_program_folder(&c, only_folder)) {
        c.path = only_folder;
        status = KILN_MISS;
    }
    if (status == KILN_OK) {
        status = compare_reads(&c, &reader, count);
    }
    if (status == KILN_MISS && ret_changed) {
        *ret_changed = c.path;
    }
    return status;
}

kiln_status kilni_reads_each(kiln_bytes encoded, const char *name, kiln_read_fn visit, void *user)
{
    kilni_byte_reader reader = {.at = encoded.data, .left = encoded.size};
    comparison c = comparison_for(name);
    const char *only_folder = NULL;
    uint32_t count = 0;
    const kiln_status status = kilni_stored_reads_decode_header(&reader, &only_folder, &count);
    if (status != KILN_OK) {
        return status;
    }
    c.visit = visit;
    c.user = user;
    if (only_folder && *only_folder != '\0') {
        const kiln_read place = {.path = only_folder,
                                 .found = KILN_ONLY_FOR_PROGRAM_IN,
                                 .now = !name                                ? KILN_E_UNSUPPORTED
                                        : is_program_folder(&c, only_folder) ? KILN_OK
                                                                             : KILN_MISS};
        c.is_ended = visit(user, &place) != 0;
    }
    return c.is_ended ? KILN_OK : compare_reads(&c, &reader, count);
}
