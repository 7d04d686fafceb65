/* SPDX-License-Identifier: Apache-2.0
 *
 * All that is wrong in a cache, and mending it.
 */
#pragma once

#include "mend.h"

/* An item that the runtime can use, or could. */
typedef struct surveyed_item {
    size_t directory; /* index in the tree */
    slot_use use;
    uint64_t size;
} surveyed_item;

typedef struct tree_survey {
    dpcpp_findings findings;
    surveyed_item *items;
    size_t item_count, item_capacity;
    size_t checked;             /* items, the damaged ones too */
    size_t evidence[EVIDENCES]; /* how many items tell each of the cache's format */
} tree_survey;

/* Reads everything of a tree. Directories that seem to be damaged are read anew. */
void survey_make(cache_tree *tree, const inspection_rules *rules, tree_survey *ret_survey);

void survey_free(tree_survey *survey);

/* Mends what was found. What is in use is left; what can't be mended is named, and makes this
 * false. Where nothing proves that this is a cache of the format, only locks of the root go: names
 * alone don't tell it from somebody's own files, or from a format to come. */
bool survey_mend(const cache_tree *tree, const inspection_rules *rules, tree_survey *survey,
                 mend_counts *mended);

/* Says how one step went where it did not go well; false where it failed. */
bool mend_complain(mend_result result, const char *path);

/* The head of what verify and trim tell as JSON. */
json_t *survey_to_json(const cache_tree *tree, const tree_survey *survey,
                       const mend_counts *mended);

/* How many damaged items, locks and so on are left. */
size_t survey_problems(const tree_survey *survey);
