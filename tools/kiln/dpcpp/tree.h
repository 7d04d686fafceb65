/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists what a cache of the SYCL runtime contains: directories of items, the files of each slot,
 * and everything else. Only names, sizes and times are read; no file is opened.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "names.h"

typedef enum item_kind {
    ITEM_IMAGE,  /* <device>/<images>/<constants>/<options>/<n> */
    ITEM_SOURCE, /* ext_kernel_compiler/<device>/<options>/<source>/<n>, without .src */
    ITEM_IR      /* ext_kernel_compiler/<digest>/ir, without .src */
} item_kind;

typedef struct file_facts {
    bool is_there;
    uint64_t size, stored_size;
    int64_t changed_s; /* modification time */
    int64_t changed_ns;
} file_facts;

/* The files that share one number. */
typedef struct cache_slot {
    uint64_t number; /* or SLOT_IR */
    file_facts files[SLOT_FILES];
} cache_slot;

/* A directory in which the runtime keeps the items of one path. */
typedef struct item_directory {
    char *path; /* relative to the root */
    item_kind kind;
    uint64_t levels[4]; /* the numbers in its path; for an image, they are device, images,
                           constants, options */
    cache_slot *slots;  /* sorted by number */
    size_t slot_count, slot_capacity;
} item_directory;

typedef struct path_list {
    char **paths; /* relative to the root */
    size_t count, capacity;
} path_list;

/* A file at the root. */
typedef struct root_file {
    file_facts facts;
    char *path;
} root_file;

enum { ROOT_SIZE, ROOT_SIZE_LOCK, ROOT_EVICTION_LOCK, ROOT_EVICTION_LOCK_INSIDE, ROOT_FILES };

typedef struct cache_tree {
    char *path; /* of the root, without final slashes */
    int root;   /* descriptor; -1: there is no such directory */
    item_directory *directories;
    size_t directory_count, directory_capacity;
    path_list others;     /* what is not of this format, including symbolic links */
    path_list unreadable; /* directories */
    path_list empty;      /* empty directories */
    root_file files[ROOT_FILES];
} cache_tree;

/* Reads a tree. If the root does not exist, the tree is empty. Returns false with errno if the root
 * cannot be read. Ends the tool if memory runs out. */
bool tree_read(const char *path, cache_tree *ret_tree);

/* Keeps errno. */
void tree_free(cache_tree *tree);

/* Reads the slots of one directory again, through its descriptor. @others receives the names that
 * are not of the format; it can be NULL. Returns false if the directory cannot be read. */
bool item_directory_read(int descriptor, item_directory *directory, path_list *others);

/* Frees the contents. */
void item_directory_clear(item_directory *directory);

/* Returns "<path>/<n>", the name of an item; the caller frees it. */
char *slot_path(const item_directory *directory, const cache_slot *slot);

/* Returns true if the slot has other files than locks and stamps. */
bool slot_has_content(const cache_slot *slot);

/* Returns the size of the slot's .bin and .src, which the runtime counts as the item's size. */
uint64_t slot_size(const cache_slot *slot);

/* Returns the size of all items, which cache_size.txt should contain. */
uint64_t tree_size(const cache_tree *tree);
