/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/output.h"
#include "../text/units.h"
#include "dpcpp.h"
#include "root.h"
#include "survey.h"

#define NS_PER_S UINT64_C(1000000000)

/* The limits that were given. */
typedef struct trim_limits {
    uint64_t max_size;  /* UINT64_MAX: no limit */
    uint64_t max_age_s; /* 0: no limit */
} trim_limits;

/* The items to remove, which are the cutoff item and all items that were last used before it. */
typedef struct trim_choice {
    slot_use cutoff;
    size_t items; /* 0: nothing is removed */
    uint64_t size;
} trim_choice;

/* ---- limits ---- */

static trim_limits limits_read(const char *command, const char *max_size, const char *older_than)
{
    if (max_size == NULL && older_than == NULL) {
        options_wrong(command, "give --max-size or --older-than");
    }
    return (trim_limits){
        .max_size = options_size(command, "max-size", max_size, UINT64_MAX),
        .max_age_s = options_age_s(command, "older-than", older_than),
    };
}

/* ---- what is removed ---- */

static int last_used_first(const void *left, const void *right)
{
    const surveyed_item *a = left;
    const surveyed_item *b = right;
    return use_compare(&a->use, &b->use);
}

/* Returns a time. Items that were last used before this time are too old. */
static uint64_t oldest_allowed_ns(const trim_limits *limits, const inspection_rules *rules)
{
    uint64_t now_s = (uint64_t)rules->now_s;
    bool is_unlimited = limits->max_age_s == 0 || limits->max_age_s > now_s;
    return is_unlimited ? 0 : (now_s - limits->max_age_s) * NS_PER_S;
}

static trim_choice choose(tree_survey *survey, const trim_limits *limits,
                          const inspection_rules *rules)
{
    trim_choice choice = {0};
    uint64_t kept = 0;
    if (survey->item_count > 0) {
        qsort(survey->items, survey->item_count, sizeof *survey->items, last_used_first);
    }
    for (size_t i = 0; i < survey->item_count; i++) {
        const surveyed_item *item = &survey->items[i];
        bool is_old = item->use.last_access_ns < oldest_allowed_ns(limits, rules);
        if (choice.items == 0 && !is_old && item->size <= limits->max_size - kept) {
            kept += item->size;
            continue;
        }
        if (choice.items++ == 0) {
            choice.cutoff = item->use;
        }
        choice.size += item->size;
    }
    return choice;
}

/* ---- removal ---- */

static bool remove_chosen(const cache_tree *tree, const inspection_rules *rules,
                          const tree_survey *survey, repair_counts *repaired)
{
    bool all_went_well = true;
    const uint64_t removed_before = repaired->removed;
    for (size_t i = 0; i < survey->item_count; i++) {
        const surveyed_item *item = &survey->items[i];
        const item_directory *directory = &tree->directories[item->directory];
        if (rules->has_cutoff && use_compare(&item->use, &rules->cutoff) >= 0) {
            outcome result = repair_directory(tree, directory, rules, repaired);
            all_went_well = repair_report(result, directory->path) && all_went_well;
        }
    }
    if (repaired->removed > removed_before) {
        all_went_well = repair_report(repair_size(tree, rules), SIZE_NAME) && all_went_well;
    }
    return all_went_well;
}

/* Returns how many findings can be repaired. */
static size_t count_repairable(const dpcpp_findings *findings)
{
    return findings_count(findings, CLASS_PROBLEM, NULL) +
           findings_count(findings, CLASS_WASTE, NULL);
}

static void print_trimmed(const trim_choice *choice, const dpcpp_findings *findings,
                          const repair_counts *repaired, bool yes)
{
    char size[UNIT_TEXT_SIZE];
    if (yes) {
        printf("%" PRIu64 " %s removed, %s\n", repaired->removed,
               noun_of(repaired->removed, "item", "items"),
               format_size(repaired->removed_bytes, size));
        return;
    }
    const size_t repairable = count_repairable(findings);
    printf("%zu %s would be removed, %s", choice->items, noun_of(choice->items, "item", "items"),
           format_size(choice->size, size));
    if (repairable > 0) {
        printf("; %zu %s would be repaired", repairable,
               noun_of(repairable, "finding", "findings"));
    }
    putchar('\n');
    if (choice->items + repairable > 0) {
        complain("nothing was changed: --yes is required for that");
    }
}

static int trim(cache_tree *tree, inspection_rules *rules, const trim_limits *limits, bool json,
                bool yes)
{
    tree_survey survey;
    repair_counts repaired = {0};
    survey_make(tree, rules, &survey);
    trim_choice choice = choose(&survey, limits, rules);
    rules->has_cutoff = choice.items > 0;
    rules->cutoff = choice.cutoff;
    bool went_well = true;
    if (yes) {
        went_well = survey_repair(tree, rules, &survey, &repaired);
        went_well = remove_chosen(tree, rules, &survey, &repaired) && went_well;
    }
    if (json) {
        json_t *object = survey_to_json(tree, &survey, &repaired);
        json_add(object, "chosen", json_number(choice.items));
        json_add(object, "chosen_bytes", json_number(choice.size));
        json_print(stdout, object);
    } else {
        findings_print(&survey.findings);
        print_trimmed(&choice, &survey.findings, &repaired, yes);
    }
    survey_free(&survey);
    return went_well ? EXIT_OK : EXIT_IO;
}

int dpcpp_trim(const dpcpp_request *request, const char *max_size, const char *older_than,
               const dpcpp_permission *permission)
{
    const trim_limits limits = limits_read(request->command, max_size, older_than);
    inspection_rules rules = rules_read(request, permission->grace);
    cache_tree tree = root_read(request);
    const int exit_code = trim(&tree, &rules, &limits, request->json, permission->yes);
    tree_free(&tree);
    return exit_code;
}
