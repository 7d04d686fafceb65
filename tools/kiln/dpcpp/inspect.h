/* SPDX-License-Identifier: Apache-2.0
 *
 * Examines the items of one directory. Finds out which of them the runtime can use, and what must
 * be done so that the runtime can use all intact items. Changes nothing.
 */
#pragma once

#include "findings.h"
#include "item.h"

/* The last use of an item, by which items are ordered. Items that were used at the same moment are
 * ordered by their paths, because copied caches contain many such items. */
typedef struct slot_use {
    uint64_t last_access_ns;
    const char *directory; /* relative to the root */
    uint64_t number;
} slot_use;

/* Returns a value below 0 if a trim removes @b before @a. */
int use_compare(const slot_use *a, const slot_use *b);

typedef struct inspection_rules {
    int64_t now_s;
    int64_t grace_s; /* the grace period; a lock that is younger counts as held */
    bool has_cutoff; /* if true, the cutoff item and all items that were last used before it are
                        removed */
    slot_use cutoff;
} inspection_rules;

typedef enum slot_verdict { SLOT_KEEP, SLOT_REMOVE } slot_verdict;

/* What must be done with a slot. */
typedef struct slot_plan {
    slot_verdict verdict;
    uint64_t place; /* if the item is kept, the number that it must have */
    bool restamp;   /* write the time of its last use again */
    uint64_t last_access_ns;
} slot_plan;

/* What must be done in a directory. */
typedef struct inspection_plan {
    slot_plan *slots;           /* one for each slot of the directory */
    bool must_be_left;          /* the directory is in use, or cannot be read */
    bool has_foreign_keys;      /* if true, do not move or remove anything in the directory */
    bool has_work;              /* there is other work than freeing locks that this process holds */
    size_t evidence[EVIDENCES]; /* the number of items with each kind of evidence of the format */
    size_t items;               /* the number of slots with content */
} inspection_plan;

/* Returns true if a lock counts as held. A lock file that is not empty always does, because the
 * runtime did not make it. */
bool lock_is_held(const file_facts *lock, const inspection_rules *rules);

/* Examines a directory.
 *
 * @descriptor  a descriptor of the directory
 * @findings    receives what was found; NULL: not wanted */
void inspect(int descriptor, const item_directory *directory, const inspection_rules *rules,
             dpcpp_findings *findings, inspection_plan *ret_plan);

/* Keeps errno. */
void plan_free(inspection_plan *plan);
