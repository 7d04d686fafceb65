/* SPDX-License-Identifier: Apache-2.0 */
#include "key_ring.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"

key_ring key_ring_of_environment(void)
{
    key_ring ring = {0};
    must_succeed(kiln_config_from_env(NULL, NULL, &ring.config));
    const kiln_store_credentials *files = ring.config->credentials;
    memcpy(ring.trusted_files, files->trusted_key_files, sizeof ring.trusted_files);
    const char *users = ring.trusted_files[1];
    if (users != NULL) {
        ring.secret_folder = text_of("%.*s/keys", (int)(strrchr(users, '/') - users), users);
    }
    return ring;
}

void key_ring_free(key_ring *ring)
{
    for (size_t i = 0; i < ring->count; i++) {
        free(ring->keys[i].path);
    }
    free(ring->keys);
    free(ring->secret_folder);
    kiln_config_free(&ring->config);
}

static void add_key(key_ring *ring, const kiln_public_key *key, key_state state)
{
    ring->keys = array_grown(ring->keys, ring->count, &ring->capacity, sizeof *ring->keys);
    ring->keys[ring->count++] =
        (known_key){.key = *key, .state = state, .path = must(strdup(ring->reading))};
}

static void read_secret(key_ring *ring)
{
    kiln_public_key key;
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = kiln_secret_key_get_public(ring->reading, &key, &error);
    if (status == KILN_OK) {
        add_key(ring, &key, KEY_OWN);
    } else {
        complain("%s", error_text(&error, status));
    }
}

static void read_secrets(key_ring *ring)
{
    DIR *folder = ring->secret_folder == NULL ? NULL : opendir(ring->secret_folder);
    const struct dirent *found;
    while (folder != NULL && (found = readdir(folder)) != NULL) {
        if (found->d_name[0] != '.') {
            owned char *path = text_of("%s/%s", ring->secret_folder, found->d_name);
            ring->reading = path;
            read_secret(ring);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

static int add_trusted(void *user, const kiln_public_key *key, int is_revoked)
{
    add_key(user, key, is_revoked ? KEY_REVOKED : KEY_TRUSTED);
    return 0;
}

static void read_trusted(key_ring *ring)
{
    for (size_t i = 0; i < KILN_TRUSTED_KEY_FILES; i++) {
        kiln_error error = {.struct_size = sizeof error};
        ring->reading = ring->trusted_files[i];
        const kiln_status status =
            ring->reading == NULL
                ? KILN_MISS
                : kiln_trusted_keys_each(ring->reading, add_trusted, ring, &error);
        if (status != KILN_OK && status != KILN_MISS) {
            complain("%s", error_text(&error, status));
            end_tool(exit_code_of(status));
        }
    }
}

void key_ring_read(key_ring *ring)
{
    read_secrets(ring);
    read_trusted(ring);
}

static bool is_same(const kiln_public_key *a, const kiln_public_key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool key_ring_has_revoked(const key_ring *ring, const kiln_public_key *key)
{
    for (size_t i = 0; i < ring->count; i++) {
        if (ring->keys[i].state == KEY_REVOKED && is_same(&ring->keys[i].key, key)) {
            return true;
        }
    }
    return false;
}

const known_key *key_ring_find(const key_ring *ring, const char *name)
{
    const known_key *found = NULL;
    for (size_t i = 0; i < ring->count; i++) {
        const known_key *known = &ring->keys[i];
        if (strcmp(known->key.name, name) != 0) {
            continue;
        }
        if (found != NULL && !is_same(&found->key, &known->key)) {
            complain("several keys have the name '%s': give one as NAME:KEY", name);
            end_tool(EXIT_USAGE);
        }
        found = known;
    }
    if (found == NULL) {
        complain("no key '%s' is known here", name);
        end_tool(EXIT_NOTHING_FOUND);
    }
    return found;
}

kiln_public_key key_ring_resolve(key_ring *ring, const char *text)
{
    kiln_public_key key;
    if (kiln_public_key_parse(text, &key) == KILN_OK) {
        return key;
    }
    key_ring_read(ring);
    return key_ring_find(ring, text)->key;
}
