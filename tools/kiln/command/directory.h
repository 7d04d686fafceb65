/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache that a command works on, and its store. In most cases it is a directory.
 */
#pragma once

#include <stdint.h>

#include <kiln/store.h>

typedef struct cache_directory {
    char *path;         /* or a different location; absolute */
    char *key_file;     /* the signing key's file; NULL: entries are not authenticated */
    uint64_t max_bytes; /* the limit that the environment sets for programs */
    kiln_store *store;  /* NULL: the directory does not exist, so nothing is cached */
} cache_directory;

/* Opens the directory that --dir names, or else the one that the environment names. Creates none,
 * and reports a missing one: a mistyped name would look like an empty cache.
 *
 * @option  the value of --dir, or NULL
 * @flags   KILN_STORE_…
 * Returns EXIT_OK. After a failure, which it has reported, returns the exit code. */
int directory_open(const char *option, uint32_t flags, cache_directory *ret_directory);

/* The same, but does not report a missing directory. */
int directory_open_if_exists(const char *option, uint32_t flags, cache_directory *ret_directory);

/* The same, but creates a missing directory, and opens it for writing. */
int directory_open_or_create(const char *option, cache_directory *ret_directory);

void directory_close(cache_directory *directory);
