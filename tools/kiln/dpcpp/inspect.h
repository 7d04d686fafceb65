/* SPDX-License-Identifier: Apache-2.0
 *
 * Examines the items of one directory: finds out which of them the runtime can use, and what must
 * be done so that it can use all intact items. Changes nothing.
 */
#pragma once

#include "findings.h"
#include "item.h"

/* When an item was last used. Items that were used at the same moment are ordered by their paths;
 * copied caches contain many such items. */
typedef struct slot_use {
    uint64_t last_access_ns;
    const char *directory; /* relative to the root */
    uint64_t number;
} slot_use;

/* Returns a value below 0 if a trim removes @a after @b. */
int use_compare(const slot_use *a, const slot_use *b);

typedef struct inspection_rules {
    int64_t now_s;
    int64_t grace_s; /* the grace period: a younger lock counts as held */
    bool has_cutoff; /* the cutoff item is removed, and so are all items that were used before it */
    slot_use cutoff;
} inspection_rules;

typedef enum slot_verdict { SLOT_KEEP, SLOT_REMOVE } slot_verdict;

/* What must be done with a slot. */
typedef struct slot_plan {
    slot_verdict verdict;
    uint64_t place; /* the number that a kept item must have */
    bool restamp;   /* write its last use again */
    uint64_t last_access_ns;
} slot_plan;

/* What must be done in a directory. */
typedef struct inspection_plan {
    slot_plan *slots;           /* one for each slot of the directory */
    bool must_be_left;          /* the directory is in use, or cannot be read */
    bool has_foreign_keys;      /* nothing in it may be moved or removed */
    bool has_work;              /* there is work besides freeing locks that this process holds */
    size_t evidence[EVIDENCES]; /* for each kind of evidence of the format, how many items there
                                   are */
    size_t items;               /* slots with content */
} inspection_plan;

/* A lock file that is not empty was not made by the runtime, and always counts as held. */
bool lock_is_held(const file_facts *lock, const inspection_rules *rules);

/* Examines a directory.
 *
 * @descriptor  of the directory
 * @findings    NULL: not wanted */
void inspect(int descriptor, const item_directory *directory, const inspection_rules *rules,
             dpcpp_findings *findings, inspection_plan *ret_plan);

/* Keeps errno. */
void plan_free(inspection_plan *plan);
