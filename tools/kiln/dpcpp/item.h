/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what the files of one slot contain, and finds what is wrong with them.
 */
#pragma once

#include "bin_file.h"
#include "src_file.h"
#include "tree.h"

/* Returns true if only the runtime can have made this path. Most programs have no specialization
 * constants or no options, so the paths of their images contain the hash of an empty text. */
bool is_path_of_runtime(const item_directory *in);

/* How much of an item is read. */
typedef enum item_depth {
    ITEM_HEADS, /* only the lengths and texts */
    ITEM_WHOLE  /* also the whole key, to compare it with the path */
} item_depth;

/* How strongly an item proves the cache's format. */
typedef enum item_evidence {
    EVIDENCE_NONE,
    EVIDENCE_EMPTY,   /* its path is the runtime's, and its files are empty or missing */
    EVIDENCE_STRANGE, /* damaged, or of a different format */
    EVIDENCE_WHOLE,   /* a file with several lengths, which all add up */
    EVIDENCES
} item_evidence;

typedef struct slot_item {
    item_evidence evidence;
    bool is_readable;      /* false: the system does not allow this process to read the item */
    const char *bin_fault; /* NULL: none */
    const char *src_fault; /* like bin_fault; can also be "does not belong to its path" */
    bool has_whole_src;    /* the lengths in .src add up */
    bool has_foreign_key;  /* none of its hashes is in its path, since it was made with a different
                              C++ library */
    bool has_stamp;        /* its time of use was read */
    bool stamp_is_damaged; /* the file for its time of use contains no number */
    uint64_t last_access_ns; /* since 1970; if there is no stamp, the time when its .bin was
                                written */
    bin_file bin;
    src_file src;
    char *device, *options; /* from the key; NULL: not known */
} slot_item;

/* Reads an item.
 *
 * @directory  a descriptor of the directory of the slot */
void item_read(int directory, const item_directory *in, const cache_slot *slot, item_depth depth,
               slot_item *ret_item);

void item_clear(slot_item *item);

/* Returns true if the runtime can load the item, as far as the formats of its files show. */
bool item_is_whole(const item_directory *in, const cache_slot *slot, const slot_item *item);

/* Returns true if two slots of a directory have the same key. */
bool slots_have_same_key(int directory, const item_directory *in, const cache_slot *a,
                         const cache_slot *b);
