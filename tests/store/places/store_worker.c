/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that uses a store while the test interferes with the store's file system.
 *
 *     store_worker LAYOUT DIRECTORY use SEED     puts and gets at random until its input is closed
 *     store_worker LAYOUT DIRECTORY fill COUNT   puts COUNT entries, each once
 *     store_worker LAYOUT DIRECTORY check COUNT  gets them
 *     store_worker LAYOUT DIRECTORY trim BYTES
 *
 * Every value is a function of its key. Prints how often each result occurred: a put that stored, a
 * put that did not, a hit, a miss, a damaged entry and, as "wrong", a value that does not belong to
 * its key.
 */
#include "support/store_scene.h"

#include <poll.h>

#define KEYS 40
#define SIZE 12000

static unsigned stored, failed, hits, misses, damaged, wrong;

static void put(kiln_store *store, uint64_t number, size_t size)
{
    const kiln_status status = scratch_put(store, number, size);
    stored += status == KILN_OK;
    failed += status != KILN_OK;
}

static void get(kiln_store *store, uint64_t number)
{
    const kiln_status status = scratch_get(store, number);
    hits += status == KILN_OK;
    wrong += status == KILN_E_REFUSED;
    damaged += status == KILN_E_CORRUPT;
    misses += status != KILN_OK && status != KILN_E_REFUSED && status != KILN_E_CORRUPT;
}

static void use(kiln_store *store, uint64_t seed)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&input, 1, 0) == 0) {
        const uint64_t random = scratch_mix(seed++);
        if (random / KEYS % 3 == 0) {
            put(store, random % KEYS, random / 1024 % 40000);
        } else {
            get(store, random % KEYS);
        }
    }
}

int main(int count, char **arguments)
{
    if (count != 5) {
        return 2;
    }
    const kiln_store_params params = {.struct_size = sizeof params, .layout = arguments[1]};
    const char *what = arguments[3];
    const uint64_t amount = strtoull(arguments[4], NULL, 10);
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (kiln_store_open(arguments[2], &params, &store, &error) != KILN_OK) {
        fprintf(stderr, "store_worker: %s\n", error.text);
        return 1;
    }
    if (strcmp(what, "use") == 0) {
        use(store, amount << 32);
    }
    for (uint64_t i = 0; i < amount && strcmp(what, "fill") == 0; i++) {
        put(store, i, SIZE);
    }
    for (uint64_t i = 0; i < amount && strcmp(what, "check") == 0; i++) {
        get(store, i);
    }
    if (strcmp(what, "trim") == 0 && trim_to(store, amount, NULL) != KILN_OK) {
        return 1;
    }
    kiln_store_close(&store);
    printf("{\"stored\": %u, \"failed\": %u, \"hits\": %u, \"misses\": %u, \"damaged\": %u, "
           "\"wrong\": %u}\n",
           stored, failed, hits, misses, damaged, wrong);
    return 0;
}
