/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache that a command works on, a directory in most cases, and its store.
 */
#pragma once

#include <stdint.h>

#include <kiln/store.h>

typedef struct cache_directory {
    char *path;         /* or another location; absolute */
    char *key_file;     /* by which entries are authenticated; NULL: they are not */
    uint64_t max_bytes; /* what programs that run here keep to */
    kiln_store *store;  /* NULL: there is no such directory, so nothing is cached */
} cache_directory;

/* Opens the directory that --dir names, else the one that the environment gives; makes none. Says
 * so where there is none: a name that was mistyped looks like an empty cache.
 *
 * @option  what --dir said, or NULL
 * @flags   KILN_STORE_…
 * Returns EXIT_OK; else the fault was named, and this is what to exit with. */
int directory_open(const char *option, uint32_t flags, cache_directory *ret_directory);

/* The same without a word where there is none. */
int directory_open_if_there(const char *option, uint32_t flags, cache_directory *ret_directory);

/* The same to write to; makes the directory where it is missing. */
int directory_open_or_make(const char *option, cache_directory *ret_directory);

void directory_close(cache_directory *directory);
