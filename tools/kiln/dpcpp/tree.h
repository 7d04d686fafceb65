/* SPDX-License-Identifier: Apache-2.0
 *
 * What is where in a cache of the SYCL runtime: its directories of items with the files of each
 * slot, and what else lies there. By names and sizes alone; no file is opened.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
    ino_t inode;
} file_facts;

/* The files that share one number. */
typedef struct cache_slot {
    uint64_t number; /* or SLOT_IR */
    file_facts files[SLOT_FILES];
} cache_slot;

/* A directory that the runtime keeps items of one path in. */
typedef struct item_directory {
    char *path; /* relative to the root */
    item_kind kind;
    uint64_t levels[4]; /* what its path says, an image's: device, images, constants, options */
    cache_slot *slots;  /* by number */
    size_t slot_count, slot_capacity;
} item_directory;

typedef struct path_list {
    char **paths; /* relative to the root */
    size_t count, capacity;
} path_list;

/* A file beside all items. */
typedef struct root_file {
    file_facts facts;
    char *path;
} root_file;

enum { ROOT_SIZE, ROOT_SIZE_LOCK, ROOT_EVICTION_LOCK, ROOT_EVICTION_LOCK_INSIDE, ROOT_FILES };

typedef struct cache_tree {
    char *path; /* of the root, without slashes at its end */
    int root;   /* descriptor; -1: there is no such directory */
    item_directory *directories;
    size_t directory_count, directory_capacity;
    path_list others;     /* not of this format, symbolic links among them */
    path_list unreadable; /* directories */
    path_list empty;      /* directories with nothing in them */
    root_file files[ROOT_FILES];
} cache_tree;

/* Reads a tree. A root that isn't there gives an empty one. Returns false with errno where the
 * root can't be read. Ends the tool where memory is out. */
bool tree_read(const char *path, cache_tree *ret_tree);

void tree_free(cache_tree *tree);

/* Reads the slots of one directory again, from a descriptor of it. @others gets the names that
 * are not of the format, or is NULL. Returns false where it can't be read. */
bool item_directory_read(int descriptor, item_directory *directory, path_list *others);

/* Frees what is in it. */
void item_directory_clear(item_directory *directory);

/* "<path>/<n>": what an item is called. To be freed. */
char *slot_path(const item_directory *directory, const cache_slot *slot);

/* Whether there is anything but locks and stamps. */
bool slot_has_content(const cache_slot *slot);

/* What its .bin and .src have, as the runtime counts sizes. */
uint64_t slot_size(const cache_slot *slot);

/* The same of all items: what cache_size.txt is to say. */
uint64_t tree_size(const cache_tree *tree);
