/* SPDX-License-Identifier: Apache-2.0
 *
 * The caches of other programs that are plain folders, as data. docs/folders.md shows this table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a folder is kept. A folder is always filled as a whole, and only if it is empty, so files of
 * two states are never mixed in it. */
typedef enum folder_update {
    /* Files refer to each other, or are changed in place. The last complete state replaces the one
     * before. */
    FOLDER_AS_A_WHOLE,
    /* A file never changes once it has its name, and needs no file except those that were made with
     * it. Files of the state before that this machine does not have stay in the list. */
    FOLDER_MERGED,
    /* The folder cannot be moved, or Kiln's layers make it needless. Nothing is done with it. */
    FOLDER_LEFT_OUT
} folder_update;

/* What must be equal, besides what the cache itself compares. */
enum {
    IDENTITY_PATH = 1u,   /* the folder's absolute path */
    IDENTITY_HOST = 2u,   /* the processor and its flags, the C library, and the system's release */
    IDENTITY_NVIDIA = 4u, /* NVIDIA's driver and the models of the GPUs */
    IDENTITY_TOOLKIT = 8u /* the version of the CUDA toolkit */
};

#define FOLDER_NAMES_MAX 4

typedef struct folder_cache {
    const char *name;                        /* in keys, and of the folder */
    const char *variables[FOLDER_NAMES_MAX]; /* each is set to the folder's path */
    const char *default_place;               /* for documents */
    folder_update update;
    unsigned identity;    /* IDENTITY_… or-ed */
    const char *needs;    /* the folder is of use only if this path exists; NULL: always */
    const char *triggers; /* the beginnings of the names of libraries that show that a program uses
                             the cache, separated by ':' */
    const char *files;    /* if not NULL: only paths that match this pattern */
    const char *left_out[FOLDER_NAMES_MAX]; /* patterns of names of files that are not kept */
    uint64_t max_bytes;                     /* a larger folder is not kept */
    const char *why;                        /* if it is left out: the reason */
} folder_cache;

extern const folder_cache folder_caches[];
extern const size_t folder_cache_count;
