/* SPDX-License-Identifier: Apache-2.0
 *
 * The source of a context's store. It is needed if the requests of a context can use different
 * stores.
 */
#pragma once

#include <stdbool.h>

#include <kiln/program.h>

#include "store/writer.h"

/* A store that is kept open, and its writer. */
typedef struct kilni_held_store {
    kiln_store *store;    /* NULL: none */
    kilni_writer *writer; /* not NULL while a context exists */
} kilni_held_store;

/* A source is a static object that any thread is allowed to use. */
struct kiln_store_source {
    void *user;

    /* Returns the store to use now; NULL: none.
     *
     * @may_open  whether to open the store if it is not open; opening it blocks */
    kilni_held_store *(*hold)(void *user, bool may_open);

    /* Releases a store that the function hold has returned. Blocks if the source has given up the
     * store and this is its last release, because the store is then closed. */
    void (*release)(kilni_held_store *held);

    /* Called when a context starts to use the source, and when it stops. */
    void (*enter)(void *user);
    void (*leave)(void *user);
};
