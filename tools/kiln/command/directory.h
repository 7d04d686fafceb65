/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache that a command works on, and its store. In most cases it is a directory.
 */
#pragma once

#include <stdint.h>

#include <kiln/config.h>
#include <kiln/store.h>

typedef struct cache_directory {
    char *path;          /* absolute; or a location that is not a directory */
    char *key_file;      /* the signing key's file; NULL: entries are not authenticated */
    kiln_config *config; /* the configuration that the environment gives */
    uint64_t max_bytes;  /* the limit that the environment sets for programs */
    kiln_store *store;   /* NULL: the directory does not exist, so nothing is cached */
} cache_directory;

/* Opens the directory that --dir names, or else the directory that the environment names. Creates
 * the directory if it is missing, unless @flags contain KILN_STORE_NO_CREATE.
 *
 * @option  the value of --dir, or NULL
 * @flags   KILN_STORE_…
 * Returns EXIT_OK. After a failure, which it has reported, returns the exit code. */
int directory_try_open(const char *option, uint32_t flags, cache_directory *ret_directory);

/* Does the same as directory_try_open, but without the environment's signing key: only a key that
 * the location itself names authenticates entries. */
int directory_try_open_without_key(const char *option, uint32_t flags,
                                   cache_directory *ret_directory);

/* Returns the location that --dir or else the environment names, with absolute paths. The caller
 * frees it. Ends the tool if there is no location. */
char *directory_location(const char *option);

/* Does the same as directory_try_open, but ends the tool after a failure. Creates no directory, and
 * reports a missing one, since a mistyped name would otherwise look like an empty cache. */
cache_directory directory_open(const char *option, uint32_t flags);

void directory_close(cache_directory *directory);

/* A variable that is declared with this is closed when it goes out of scope. */
#define owned_directory __attribute__((cleanup(directory_close))) cache_directory
