/* SPDX-License-Identifier: Apache-2.0
 *
 * The source of a context's store, if each request may use a different store.
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

/* A source is a static object that any thread may use. */
struct kiln_store_source {
    void *user;

    /* Returns the store to use now; NULL: none.
     *
     * @may_open  whether to open the store if it is not open, which blocks */
    kilni_held_store *(*hold)(void *user, bool may_open);

    /* Releases what hold returned. Blocks: the last release of a store that the source has given up
     * closes the store. */
    void (*release)(kilni_held_store *held);

    /* Called when a context starts to use the source, and when it stops. */
    void (*enter)(void *user);
    void (*leave)(void *user);
};
