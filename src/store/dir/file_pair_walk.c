/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "key/hash.h"
#include "os/file.h"
#include "os/os.h"
#include "store/dir/file_pair.h"
#include "store/location.h"

typedef struct pair_walk {
    kilni_dir *dir;
    kilni_dir_visit_fn *visit; /* NULL: the walk only removes empty folders */
    void *user;
    kilni_dir_position *position; /* NULL: no other walk will continue this one */
    unsigned depth;               /* of the present folder */
    bool has_ended;
    kiln_status first_failure;
    unsigned shard;
    char path[KILNI_PAIR_FOLDER_SIZE]; /* of the present folder */
} pair_walk;

static void note_failure(pair_walk *walk, kiln_status status)
{
    if (status != KILN_OK && status != KILN_MISS && walk->first_failure == KILN_OK) {
        walk->first_failure =
            status == KILN_E_NO_MEMORY || status == KILN_E_DENIED ? status : KILN_E_IO;
    }
}

/* ---- in a folder that has pairs ---- */

/* Returns true if the walk must not visit further files of the present folder. A walk that has a
 * position visits all files of a folder before it ends. */
static bool is_over(const pair_walk *walk)
{
    return walk->has_ended && !walk->position;
}

typedef struct folder_walk {
    pair_walk *walk;
    int folder;
} folder_walk;

static kilni_dir_found found_in(const folder_walk *in, const char *name)
{
    return (kilni_dir_found){
        .shard = in->walk->shard,
        .directory = in->folder,
        .name = name,
        .folder = in->walk->path,
    };
}

static void visit_if_file(const folder_walk *in, kilni_dir_found *found)
{
    found->is_temporary = true;
    if (!is_over(in->walk) &&
        kilni_os()->fstatat(in->folder, found->name, &found->stat, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(found->stat.st_mode)) {
        in->walk->has_ended = in->walk->visit(in->walk->user, found) != 0;
    }
}

static void visit_temporary(void *user, const char *name)
{
    const folder_walk *in = user;
    kilni_dir_found found = found_in(in, name);
    visit_if_file(in, &found);
}

/* Visits a pair, or half of one. A listing can miss a file that is being replaced, so this function
 * looks for both files of the pair by name. */
static void visit_slot(const folder_walk *in, const kilni_pair_slot *slot)
{
    const kilni_dir *dir = in->walk->dir;
    char key_name[KILNI_PAIR_NAME_SIZE], name[KILNI_PAIR_NAME_SIZE];
    kilni_pair_key_name(dir, slot->number, key_name);
    kilni_pair_payload_name(dir, slot->number, name);
    kilni_dir_found found = found_in(in, name);
    found.number = slot->number;
    if (kilni_pair_stat(dir, in->folder, slot->number, &found.stat, &found.key_size)) {
        in->walk->has_ended = in->walk->visit(in->walk->user, &found) != 0;
    } else if (slot->has_key != slot->has_payload) {
        found.half = slot->has_key ? KILNI_DIR_HALF_KEY : KILNI_DIR_HALF_PAYLOAD;
        found.name = slot->has_key ? key_name : name;
        visit_if_file(in, &found);
    }
}

static void visit_pairs(pair_walk *walk, int folder)
{
    folder_walk in = {.walk = walk, .folder = folder};
    kilni_pair_list list;
    const kiln_status status =
        kilni_pair_list_read(walk->dir, folder, walk->visit ? visit_temporary : NULL, &in, &list);
    if (status != KILN_OK) {
        note_failure(walk, status);
        return;
    }
    for (size_t i = 0; i < list.count && !is_over(walk); i++) {
        if (list.slots[i].is_foreign) {
            continue;
        }
        if (walk->visit) {
            visit_slot(&in, &list.slots[i]);
        } else if (!list.slots[i].has_key && !list.slots[i].has_payload) {
            char name[KILNI_PAIR_NAME_SIZE];
            kilni_pair_slot_name(list.slots[i].number, name);
            kilni_os()->unlinkat(folder, name, AT_REMOVEDIR);
        }
    }
    kilni_pair_list_done(&list);
}

/* ---- the folders above folders that have pairs ---- */

static void walk_level(pair_walk *walk, int folder, unsigned level, bool is_top);

/* Returns true if a name is the name of a folder that the walk must enter. Sets @ret_level to the
 * folder's level. */
static bool leads_down(pair_walk *walk, const char *name, unsigned level, bool is_top,
                       unsigned *ret_level)
{
    kiln_digest digest;
    if (kilni_pair_is_level_name(name, &digest)) {
        if (level == 0) {
            walk->shard = digest.bytes[0];
        }
        *ret_level = level + 1;
        return true;
    }
    *ret_level = level;
    return is_top && kilni_pair_naming_of(walk->dir)->has_backends &&
           kilni_location_is_backend_name(name);
}

static void walk_below(pair_walk *walk, int parent, const char *name, unsigned level)
{
    const int folder =
        kilni_os()->openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (folder < 0) {
        /* A symbolic link of that name does not belong to Kiln, so it is skipped and not reported
         * as a failure. */
        note_failure(walk, errno == ELOOP ? KILN_OK : kilni_dir_read_status(errno));
        return;
    }
    const size_t length = strlen(walk->path);
    if (length > 0) {
        walk->path[length] = '/';
    }
    memcpy(walk->path + length + (length > 0), name, strlen(name) + 1);
    if (level == kilni_pair_naming_of(walk->dir)->levels) {
        const kiln_status status = kilni_dir_judge_folder(walk->dir, folder);
        if (status == KILN_OK) {
            visit_pairs(walk, folder);
        }
        note_failure(walk, status);
    } else {
        walk->depth++;
        walk_level(walk, folder, level, false);
        walk->depth--;
    }
    kilni_os()->close(folder);
    /* Folders of level 0 are kept. An empty folder with the name of a backend might belong to
     * another program. */
    if (!walk->visit && level > 0) {
        kilni_os()->unlinkat(parent, name, AT_REMOVEDIR);
    }
    walk->path[length] = '\0';
}

/* Records the offset at which to continue in the present folder. */
static void set_offset(pair_walk *walk, int64_t offset)
{
    if (walk->position) {
        walk->position->offsets[walk->depth] = (uint64_t)offset;
        walk->position->inodes[walk->depth] = 0;
    }
}

/* Records the inode of the folder that is at the offset in the present folder. If a different
 * folder was at this offset before, the positions in the folders below are no longer valid, and are
 * reset. */
static void note_folder(pair_walk *walk, uint64_t inode)
{
    if (walk->position && walk->position->inodes[walk->depth] != inode) {
        walk->position->inodes[walk->depth] = inode;
        for (unsigned below = walk->depth + 1; below < KILNI_DIR_FOLDERS; below++) {
            walk->position->offsets[below] = 0;
            walk->position->inodes[below] = 0;
        }
    }
}

static void seek_position(const pair_walk *walk, DIR *listing)
{
    if (walk->position && walk->position->offsets[walk->depth] != 0) {
        kilni_os()->seekdir(listing, (long)walk->position->offsets[walk->depth]);
    }
}

static void walk_level(pair_walk *walk, int folder, unsigned level, bool is_top)
{
    DIR *listing = kilni_file_list(folder);
    if (!listing) {
        note_failure(walk, kilni_dir_read_status(errno));
        return;
    }
    seek_position(walk, listing);
    while (!walk->has_ended) {
        errno = 0;
        const struct dirent *found = kilni_os()->readdir(listing);
        if (!found) {
            note_failure(walk, errno == 0 ? KILN_OK : kilni_dir_read_status(errno));
            break;
        }
        const int64_t next = found->d_off;
        bool ended_below = false;
        unsigned below;
        if (leads_down(walk, found->d_name, level, is_top, &below)) {
            note_folder(walk, found->d_ino);
            walk_below(walk, folder, found->d_name, below);
            ended_below = walk->has_ended && below < kilni_pair_naming_of(walk->dir)->levels;
        } else if (is_top && walk->visit && walk->dir->layout->note_size &&
                   kilni_dir_is_temporary_name(found->d_name)) {
            /* This is a temporary that was written to replace the file in which the layout records
             * the size. */
            folder_walk in = {.walk = walk, .folder = folder};
            visit_temporary(&in, found->d_name);
        }
        if (!ended_below) {
            set_offset(walk, next);
        }
    }
    kilni_os()->closedir(listing);
}

kiln_status kilni_pair_walk(kilni_dir *dir, kilni_dir_visit_fn *visit, void *user,
                            bool *ret_has_ended)
{
    return kilni_pair_walk_from(dir, NULL, visit, user, ret_has_ended);
}

kiln_status kilni_pair_walk_from(kilni_dir *dir, kilni_dir_position *position,
                                 kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended)
{
    pair_walk walk = {.dir = dir, .visit = visit, .user = user, .position = position};
    walk_level(&walk, kilni_dir_root(dir), 0, true);
    *ret_has_ended = walk.has_ended;
    return walk.first_failure;
}

void kilni_pair_tidy(kilni_dir *dir)
{
    pair_walk walk = {.dir = dir};
    walk_level(&walk, kilni_dir_root(dir), 0, true);
}

/* ---- what was found ---- */

kiln_status kilni_pair_check_place(kilni_dir *dir, const kilni_dir_found *found,
                                   const kiln_entry *entry)
{
    const kiln_key *key = kiln_entry_key(entry);
    char wanted[KILNI_PAIR_FOLDER_SIZE];
    if (kilni_pair_hash_path_of(dir, key, wanted) != KILN_OK) {
        return KILN_E_CORRUPT;
    }
    const size_t here = strlen(found->folder), length = strlen(wanted);
    const bool is_here = here >= length && strcmp(found->folder + here - length, wanted) == 0 &&
                         (here == length || found->folder[here - length - 1] == '/');
    if (!is_here) {
        return KILN_E_CORRUPT;
    }
    const kiln_status status = kilni_pair_compare_key(dir, found->directory, found->number, key);
    return status == KILN_MISS ? KILN_E_CORRUPT : status;
}

static bool read_key_file(const kilni_dir *dir, const kilni_dir_found *found, void **ret_bytes,
                          size_t *ret_size)
{
    char name[KILNI_PAIR_NAME_SIZE];
    kilni_pair_key_name(dir, found->number, name);
    int file;
    struct stat stat;
    if (kilni_dir_open_file(dir, found->directory, name, &file, &stat) != KILN_OK) {
        return false;
    }
    size_t count = 0;
    const bool has_size = stat.st_size > 0 && (uint64_t)stat.st_size <= kilni_dir_largest_file(dir);
    void *bytes = has_size ? malloc((size_t)stat.st_size) : NULL;
    const bool is_read =
        bytes && kilni_file_read(file, bytes, (size_t)stat.st_size, &count) == KILN_OK;
    kilni_os()->close(file);
    if (!is_read) {
        free(bytes);
        return false;
    }
    *ret_bytes = bytes;
    *ret_size = count;
    return true;
}

kiln_digest kilni_pair_digest_of(kilni_dir *dir, const kilni_dir_found *found)
{
    kiln_digest digest = {{0}};
    void *bytes = NULL;
    size_t size;
    if (read_key_file(dir, found, &bytes, &size)) {
        digest = kilni_hash(bytes, size); /* a key's digest is that of its encoding */
        free(bytes);
    }
    return digest;
}
