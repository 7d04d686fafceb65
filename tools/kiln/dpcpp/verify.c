/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/output.h"
#include "../text/units.h"
#include "dpcpp.h"
#include "root.h"
#include "survey.h"

static void print_summary(const tree_survey *survey, const repair_counts *repaired)
{
    size_t all_problems, all_waste;
    size_t problems = findings_count(&survey->findings, CLASS_PROBLEM, &all_problems);
    size_t waste = findings_count(&survey->findings, CLASS_WASTE, &all_waste);
    char size[UNIT_TEXT_SIZE];
    printf("%zu %s checked, %zu usable: %zu %s, %zu of waste", survey->checked,
           noun_of(survey->checked, "item", "items"), survey->item_count, all_problems,
           noun_of(all_problems, "problem", "problems"), all_waste);
    if (problems + waste < all_problems + all_waste) {
        printf("; %zu repaired, %s removed", all_problems + all_waste - problems - waste,
               format_size(repaired->removed_bytes, size));
    }
    putchar('\n');
}

static int verify(cache_tree *tree, const inspection_rules *rules, bool json, bool repair, bool yes)
{
    tree_survey survey;
    repair_counts repaired = {0};
    survey_make(tree, rules, &survey);
    bool went_well = !repair || !yes || survey_repair(tree, rules, &survey, &repaired);
    if (json) {
        json_print(stdout, survey_to_json(tree, &survey, &repaired));
    } else {
        findings_print(&survey.findings);
        print_summary(&survey, &repaired);
    }
    size_t problems = survey_problems(&survey);
    if (repair && !yes && problems + findings_count(&survey.findings, CLASS_WASTE, NULL) > 0) {
        complain("nothing was changed: --yes is required for that");
    }
    survey_free(&survey);
    return !went_well ? EXIT_IO : problems > 0 ? EXIT_DAMAGED : EXIT_OK;
}

int dpcpp_verify(const dpcpp_request *request, bool repair, const dpcpp_permission *permission)
{
    const inspection_rules rules = rules_read(request, permission->grace);
    cache_tree tree = root_read(request);
    const int exit_code = verify(&tree, &rules, request->json, repair, permission->yes);
    tree_free(&tree);
    return exit_code;
}
