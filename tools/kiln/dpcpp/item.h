/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of one slot say, and what is wrong with them.
 */
#pragma once

#include "bin_file.h"
#include "src_file.h"
#include "tree.h"

/* Whether a path can only be the runtime's. Most programs have no specialization constants and no
 * options: then a hash of nothing is in it. */
bool is_path_of_runtime(const item_directory *in);

/* How much of an item is read. */
typedef enum item_depth {
    ITEM_HEADS, /* lengths and texts */
    ITEM_WHOLE  /* its whole key too, to compare it with its path */
} item_depth;

/* What an item tells about the format of the cache that it is in. */
typedef enum item_evidence {
    EVIDENCE_NONE,
    EVIDENCE_EMPTY,   /* its path is one of the runtime's, and its files are empty or gone */
    EVIDENCE_STRANGE, /* damaged, or of another format */
    EVIDENCE_WHOLE,   /* a file of several lengths, which all add up */
    EVIDENCES
} item_evidence;

typedef struct slot_item {
    item_evidence evidence;
    bool is_readable;        /* false: it is there, but the system doesn't let it be read */
    const char *bin_fault;   /* NULL: none */
    const char *src_fault;   /* the same; "doesn't belong to its path" too */
    bool has_whole_src;      /* its lengths add up */
    bool has_foreign_key;    /* none of its hashes is what its path says: of another library */
    bool has_stamp;          /* when it was used last was read */
    bool stamp_is_damaged;   /* its file is there, but holds no number */
    uint64_t last_access_ns; /* since 1970; without a stamp, when its .bin was written */
    bin_file bin;
    src_file src;
    char *device, *options; /* texts from the key; NULL: not known */
} slot_item;

/* @directory  descriptor of the directory that the slot is in */
void item_read(int directory, const item_directory *in, const cache_slot *slot, item_depth depth,
               slot_item *ret_item);

void item_clear(slot_item *item);

/* Whether the runtime can load it, as far as can be told. */
bool item_is_whole(const item_directory *in, const cache_slot *slot, const slot_item *item);

/* Whether two slots of a directory have the same key. */
bool slots_have_same_key(int directory, const item_directory *in, const cache_slot *a,
                         const cache_slot *b);
