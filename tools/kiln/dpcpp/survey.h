/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds everything that is wrong in a cache, and repairs it.
 */
#pragma once

#include "repair.h"

/* An item that the runtime can use now or after a repair. */
typedef struct surveyed_item {
    size_t directory; /* index in the tree */
    slot_use use;
    uint64_t size;
} surveyed_item;

typedef struct tree_survey {
    dpcpp_findings findings;
    surveyed_item *items;
    size_t item_count, item_capacity;
    size_t checked;             /* number of items, including damaged items */
    size_t evidence[EVIDENCES]; /* the number of items with each kind of evidence of the format */
} tree_survey;

/* Reads everything in a tree. Directories that seem damaged are read again. */
void survey_make(cache_tree *tree, const inspection_rules *rules, tree_survey *ret_survey);

void survey_free(tree_survey *survey);

/* Repairs what was found, except what is in use. Reports each repair that was not made. Returns
 * false if a repair failed. If nothing proves that this is a cache of this format, removes only
 * locks at the root. The names alone are not enough, because a user's own files or a later format
 * could have the same names. */
bool survey_repair(const cache_tree *tree, const inspection_rules *rules, tree_survey *survey,
                   repair_counts *repaired);

/* Reports a step whose outcome is not OUTCOME_DONE. Returns false if it is OUTCOME_FAILED. */
bool repair_report(outcome result, const char *path);

/* Returns the members that verify and trim share in JSON. */
json_t *survey_to_json(const cache_tree *tree, const tree_survey *survey,
                       const repair_counts *repaired);

/* Returns the number of remaining problems, such as damaged items and abandoned locks. */
size_t survey_problems(const tree_survey *survey);
