/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges the items of one directory: which of them the runtime can use, and what has to be done so
 * that it can use all that are good. Alters nothing.
 */
#pragma once

#include "findings.h"
#include "item.h"

/* When an item was used last. Of those of one moment, which caches that were copied are full of,
 * its place decides. */
typedef struct slot_use {
    uint64_t last_access_ns;
    const char *directory; /* relative to the root */
    uint64_t number;
} slot_use;

/* Below 0: @a goes after @b in a trim. */
int use_compare(const slot_use *a, const slot_use *b);

typedef struct inspection_rules {
    int64_t now_s;
    int64_t grace_s; /* a lock that is younger is taken for held */
    bool has_cutoff; /* this item goes, and all that were used before it */
    slot_use cutoff;
} inspection_rules;

typedef enum slot_verdict { SLOT_KEEP, SLOT_REMOVE } slot_verdict;

/* What is to be done with a slot. */
typedef struct slot_plan {
    slot_verdict verdict;
    uint64_t place; /* the number under which a kept one is found */
    bool restamp;   /* write its last use anew */
    uint64_t stamp_ns;
    uint64_t last_access_ns;
    bool is_whole;
} slot_plan;

/* What is to be done in a directory. */
typedef struct inspection_plan {
    slot_plan *slots;           /* as in the directory */
    bool must_be_left;          /* somebody is at work in it, or it can't be read */
    bool has_foreign_keys;      /* so that nothing in it is moved or removed */
    bool has_work;              /* besides freeing locks that we hold */
    size_t evidence[EVIDENCES]; /* how many items tell each of the format */
    size_t items, whole;        /* slots with content, and those of them that are whole */
} inspection_plan;

/* One that is not empty is not the runtime's, and never free. */
bool lock_is_held(const file_facts *lock, const inspection_rules *rules);

/* @descriptor  of the directory
 * @findings    NULL: none are wanted */
void inspect(int descriptor, const item_directory *directory, const inspection_rules *rules,
             dpcpp_findings *findings, inspection_plan *ret_plan);

void plan_free(inspection_plan *plan);
