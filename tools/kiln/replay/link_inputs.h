/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a link of nvJitLink. The key has the digests of their contents, which are kept
 * beside the store.
 */
#pragma once

#include <stddef.h>

#include <kiln/store.h>

typedef struct link_input {
    int kind;            /* nvJitLink's number */
    char *name;          /* NULL: it has none */
    char *path;          /* of a file that nvJitLink reads; NULL: the program passed the content */
    kiln_entry *content; /* its payload is what the program passed; NULL: it is a file */
} link_input;

typedef struct link_inputs {
    link_input *items;
    size_t count, capacity;
} link_inputs;

/* Reads the inputs that a key names. Returns NULL, or why that is not possible, which the caller
 * frees.
 *
 * @included  the store of the contents; NULL: none are kept */
char *link_inputs_read(const kiln_key *key, kiln_store *included, link_inputs *inputs);
