/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../text/memory.h"
#include "files.h"

/* ---- lists ---- */

/* Takes over @path. */
static void list_add(path_list *list, char *path)
{
    list->paths = array_grown(list->paths, list->count, &list->capacity, sizeof *list->paths);
    list->paths[list->count++] = path;
}

static void list_free(path_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->paths[i]);
    }
    free(list->paths);
}

static char *joined(const char *path, const char *name)
{
    return path[0] == '\0' ? must(strdup(name)) : text_of("%s/%s", path, name);
}

static file_facts facts_of(const struct stat *stat)
{
    return (file_facts){
        .is_there = true,
        .size = (uint64_t)stat->st_size,
        .stored_size = (uint64_t)stat->st_blocks * 512,
        .changed_s = stat->st_mtim.tv_sec,
        .changed_ns = stat->st_mtim.tv_nsec,
    };
}

/* ---- names of a directory, sorted ---- */

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static bool is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool read_names(int descriptor, path_list *ret_names)
{
    /* Opens the directory again, because the stream closes the descriptor that it reads from, and
     * must start at the beginning. */
    int own = open_directory_below(descriptor, "");
    DIR *stream = own < 0 ? NULL : fdopendir(own);
    if (stream == NULL) {
        if (own >= 0) {
            close(own);
        }
        return false;
    }
    path_list names = {0};
    const struct dirent *entry;
    while ((errno = 0, entry = readdir(stream)) != NULL) {
        if (!is_self_or_parent(entry->d_name)) {
            list_add(&names, must(strdup(entry->d_name)));
        }
    }
    int error = errno;
    closedir(stream);
    if (error != 0) {
        list_free(&names);
        errno = error;
        return false;
    }
    if (names.count > 0) {
        qsort(names.paths, names.count, sizeof *names.paths, by_name);
    }
    *ret_names = names;
    return true;
}

/* ---- a directory of items ---- */

static cache_slot *slot_at(item_directory *directory, uint64_t number)
{
    for (size_t i = directory->slot_count; i > 0; i--) {
        if (directory->slots[i - 1].number == number) {
            return &directory->slots[i - 1];
        }
    }
    directory->slots = array_grown(directory->slots, directory->slot_count,
                                   &directory->slot_capacity, sizeof *directory->slots);
    cache_slot *slot = &directory->slots[directory->slot_count++];
    *slot = (cache_slot){.number = number};
    return slot;
}

static int by_number(const void *left, const void *right)
{
    const cache_slot *a = left;
    const cache_slot *b = right;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Returns true if the format has such a file in a directory of this kind. */
static bool is_of_kind(item_kind kind, uint64_t number, slot_file file)
{
    return (number == SLOT_IR) == (kind == ITEM_IR) && (file != SLOT_SRC || kind == ITEM_IMAGE);
}

bool item_directory_read(int descriptor, item_directory *directory, path_list *others)
{
    path_list names;
    if (!read_names(descriptor, &names)) {
        return false;
    }
    directory->slot_count = 0;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.paths[i];
        uint64_t number;
        slot_file file;
        struct stat stat;
        if (fstatat(descriptor, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
            continue; /* it was removed meanwhile */
        }
        if (S_ISREG(stat.st_mode) && slot_name_parse(name, &number, &file) &&
            is_of_kind(directory->kind, number, file)) {
            slot_at(directory, number)->files[file] = facts_of(&stat);
        } else if (others != NULL) {
            list_add(others, joined(directory->path, name));
        }
    }
    list_free(&names);
    if (directory->slot_count > 0) {
        qsort(directory->slots, directory->slot_count, sizeof *directory->slots, by_number);
    }
    return true;
}

void item_directory_clear(item_directory *directory)
{
    free(directory->path);
    free(directory->slots);
    *directory = (item_directory){0};
}

char *slot_path(const item_directory *directory, const cache_slot *slot)
{
    char name[SLOT_NAME_SIZE];
    slot_name_format(slot->number, SLOT_BIN, name);
    *strrchr(name, '.') = '\0';
    return joined(directory->path, name);
}

bool slot_has_content(const cache_slot *slot)
{
    return slot->files[SLOT_BIN].is_there || slot->files[SLOT_SRC].is_there;
}

uint64_t slot_size(const cache_slot *slot)
{
    return slot->files[SLOT_BIN].size + slot->files[SLOT_SRC].size;
}

uint64_t tree_size(const cache_tree *tree)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < tree->directory_count; i++) {
        for (size_t j = 0; j < tree->directories[i].slot_count; j++) {
            sum += slot_size(&tree->directories[i].slots[j]);
        }
    }
    return sum;
}

/* ---- the levels above ---- */

/* The position of the walk. */
typedef struct tree_place {
    int descriptor;
    const char *path;
    item_kind kind;
    int depth; /* the number of hashes that are set */
    uint64_t hashes[4];
} tree_place;

static void walk(cache_tree *tree, const tree_place *place);

static void read_items(cache_tree *tree, const tree_place *place)
{
    item_directory directory = {.path = must(strdup(place->path)), .kind = place->kind};
    memcpy(directory.levels, place->hashes, sizeof directory.levels);
    size_t others = tree->others.count;
    if (!item_directory_read(place->descriptor, &directory, &tree->others)) {
        list_add(&tree->unreadable, must(strdup(place->path)));
        item_directory_clear(&directory);
        return;
    }
    if (directory.slot_count == 0) {
        if (tree->others.count == others) {
            list_add(&tree->empty, must(strdup(place->path)));
        }
        item_directory_clear(&directory);
        return;
    }
    tree->directories = array_grown(tree->directories, tree->directory_count,
                                    &tree->directory_capacity, sizeof *tree->directories);
    tree->directories[tree->directory_count++] = directory;
}

/* Sets the position of the directory with this name. Returns false if the format has no such
 * directory there. */
static bool place_below(const tree_place *place, const char *name, tree_place *ret_place)
{
    uint64_t number;
    *ret_place = *place;
    if (parse_number(name, strlen(name), &number)) {
        ret_place->hashes[ret_place->depth++] = number;
        return true;
    }
    if (place->path[0] == '\0' && strcmp(name, KERNEL_COMPILER_NAME) == 0) {
        ret_place->kind = ITEM_SOURCE;
        return true;
    }
    if (place->kind == ITEM_SOURCE && place->depth == 0 && is_ir_directory_name(name)) {
        ret_place->kind = ITEM_IR;
        return true;
    }
    return false;
}

static bool is_complete(const tree_place *place)
{
    static const int depths[] = {[ITEM_IMAGE] = 4, [ITEM_SOURCE] = 3, [ITEM_IR] = 0};
    return place->depth == depths[place->kind];
}

static void enter(cache_tree *tree, const tree_place *place, const char *name)
{
    tree_place below;
    char *path = joined(place->path, name);
    if (!place_below(place, name, &below)) {
        list_add(&tree->others, path);
        return;
    }
    below.path = path;
    below.descriptor = open_directory_below(place->descriptor, name);
    if (below.descriptor < 0) {
        bool is_other = errno == ELOOP || errno == ENOTDIR;
        if (errno != ENOENT) {
            list_add(is_other ? &tree->others : &tree->unreadable, must(strdup(path)));
        }
    } else {
        if (is_complete(&below)) {
            read_items(tree, &below);
        } else {
            walk(tree, &below);
        }
        close(below.descriptor);
    }
    free(path);
}

static bool is_root_file(const cache_tree *tree, const char *name)
{
    for (int i = 0; i < ROOT_FILES; i++) {
        if (i != ROOT_EVICTION_LOCK && strcmp(tree->files[i].path, name) == 0) {
            return tree->files[i].facts.is_there;
        }
    }
    return false;
}

static void walk(cache_tree *tree, const tree_place *place)
{
    path_list names;
    bool is_root = place->path[0] == '\0';
    if (!read_names(place->descriptor, &names)) {
        list_add(&tree->unreadable, must(strdup(is_root ? "." : place->path)));
        return;
    }
    if (names.count == 0 && !is_root) {
        list_add(&tree->empty, must(strdup(place->path)));
    }
    for (size_t i = 0; i < names.count; i++) {
        if (!is_root || !is_root_file(tree, names.paths[i])) {
            enter(tree, place, names.paths[i]);
        }
    }
    list_free(&names);
}

/* ---- the root ---- */

static void read_root_files(cache_tree *tree)
{
    tree->files[ROOT_SIZE].path = must(strdup(SIZE_NAME));
    tree->files[ROOT_SIZE_LOCK].path = must(strdup(SIZE_NAME ".lock"));
    /* The runtime appends the lock's name to the root's name, so this lock is beside the root. If
     * the root was given with a final slash, the lock is in the root. */
    tree->files[ROOT_EVICTION_LOCK].path = text_of("%s%s", tree->path, EVICTION_LOCK_NAME);
    tree->files[ROOT_EVICTION_LOCK_INSIDE].path = must(strdup(EVICTION_LOCK_NAME));
    for (int i = 0; i < ROOT_FILES; i++) {
        struct stat stat;
        if (fstatat(tree->root, tree->files[i].path, &stat, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(stat.st_mode)) {
            tree->files[i].facts = facts_of(&stat);
        }
    }
}

bool tree_read(const char *path, cache_tree *ret_tree)
{
    cache_tree tree = {.path = must(strdup(path))};
    for (size_t length = strlen(path); length > 1 && tree.path[length - 1] == '/'; length--) {
        tree.path[length - 1] = '\0';
    }
    /* The path that the user gives is allowed to be a link. Below it, links are not followed. */
    tree.root = open(tree.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (tree.root < 0 && errno != ENOENT) {
        tree_free(&tree);
        return false;
    }
    if (tree.root >= 0) {
        read_root_files(&tree);
        walk(&tree, &(tree_place){.descriptor = tree.root, .path = ""});
    }
    *ret_tree = tree;
    return true;
}

void tree_free(cache_tree *tree)
{
    const int error = errno;
    for (size_t i = 0; i < tree->directory_count; i++) {
        item_directory_clear(&tree->directories[i]);
    }
    for (int i = 0; i < ROOT_FILES; i++) {
        free(tree->files[i].path);
    }
    free(tree->directories);
    list_free(&tree->others);
    list_free(&tree->unreadable);
    list_free(&tree->empty);
    free(tree->path);
    close_descriptor(&tree->root);
    *tree = (cache_tree){.root = -1};
    errno = error;
}
