/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a context gets its store from, if that may be a different one for each request.
 */
#pragma once

#include <stdbool.h>

#include <kiln/program.h>

#include "store/writer.h"

/* A store that is kept open, and the writer that goes with it. */
typedef struct kilni_held_store {
    kiln_store *store;    /* NULL: none */
    kilni_writer *writer; /* not NULL while a context lives */
} kilni_held_store;

/* Static: lives as long as the process. Threads: any. */
struct kiln_store_source {
    void *user;

    /* The store to use now; NULL: none.
     *
     * @may_open  whether to open it if it is not open. Blocks then. */
    kilni_held_store *(*hold)(void *user, bool may_open);

    /* Gives back what hold returned. Blocks: the last one closes a store that nobody uses. */
    void (*release)(kilni_held_store *held);

    /* A context that uses the source begins; ends. */
    void (*enter)(void *user);
    void (*leave)(void *user);
};
