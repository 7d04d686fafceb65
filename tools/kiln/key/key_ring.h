/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys that are known here: the user's secret keys, and the keys in the files of trusted keys.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/config.h>
#include <kiln/signature.h>

typedef enum key_state { KEY_OWN, KEY_TRUSTED, KEY_REVOKED } key_state;

/* What a file says about a key. */
typedef struct known_key {
    kiln_public_key key;
    key_state state;
    char *path; /* of the file that the key was read from */
} known_key;

typedef struct key_ring {
    const char *trusted_files[KILN_TRUSTED_KEY_FILES]; /* the file of root, and the file of the
                                                          user; NULL: there is none */
    char *secret_folder;                               /* NULL: nothing says where the folder is */
    kiln_config *config;
    known_key *keys;
    size_t count, capacity;
    const char *reading; /* the file that is being read now */
} key_ring;

/* Finds the paths of the files, which depend on the environment. Does not read the files. */
key_ring key_ring_of_environment(void);

void key_ring_free(key_ring *ring);

/* Reads all files. Reports secret keys that can't be used. Ends the tool if a file of trusted keys
 * can't be used. */
void key_ring_read(key_ring *ring);

bool key_ring_has_revoked(const key_ring *ring, const kiln_public_key *key);

/* Returns what is known about the key with this name. Ends the tool if there is no such key, or if
 * several different keys have the name. */
const known_key *key_ring_find(const key_ring *ring, const char *name);

/* Returns the key that a text means. The text is either NAME:KEY, or the name of a key in the
 * files. For a name, this function reads the files. It ends the tool in the same cases as
 * key_ring_find and key_ring_read. */
kiln_public_key key_ring_resolve(key_ring *ring, const char *text);
