/* SPDX-License-Identifier: Apache-2.0 */
#include "survey.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "files.h"

/* ---- items ---- */

static void add_items(tree_survey *survey, const item_directory *directory,
                      const inspection_plan *plan, size_t index)
{
    for (size_t i = 0; i < directory->slot_count; i++) {
        if (plan->slots[i].verdict != SLOT_KEEP) {
            continue;
        }
        survey->items = array_grown(survey->items, survey->item_count, &survey->item_capacity,
                                    sizeof *survey->items);
        survey->items[survey->item_count++] =
            (surveyed_item){.directory = index,
                            .use = {.last_access_ns = plan->slots[i].last_access_ns,
                                    .directory = directory->path,
                                    .number = directory->slots[i].number},
                            .size = slot_size(&directory->slots[i])};
    }
}

/* While the names were read, a program might have been writing an item. This item might be whole by
 * now, or have a lock that was not seen. So a directory that seems damaged is examined twice. */
static void inspect_twice(int descriptor, item_directory *directory, const inspection_rules *rules,
                          dpcpp_findings *findings, inspection_plan *ret_plan)
{
    size_t before = findings->count;
    inspect(descriptor, directory, rules, findings, ret_plan);
    if (ret_plan->has_work && item_directory_read(descriptor, directory, NULL)) {
        plan_free(ret_plan);
        findings_cut(findings, before);
        inspect(descriptor, directory, rules, findings, ret_plan);
    }
}

static void survey_directory(cache_tree *tree, size_t index, const inspection_rules *rules,
                             tree_survey *survey)
{
    item_directory *directory = &tree->directories[index];
    int descriptor = open_directory_below(tree->root, directory->path);
    if (descriptor < 0) {
        if (errno != ENOENT) {
            survey->findings.owner.kind = OWNER_NONE;
            findings_add(&survey->findings, FINDING_UNREADABLE, must(strdup(directory->path)),
                         must(strdup("can't be read")));
        }
        return;
    }
    survey->findings.owner = (item_owner){OWNER_DIRECTORY, index};
    inspection_plan plan;
    inspect_twice(descriptor, directory, rules, &survey->findings, &plan);
    survey->checked += plan.items;
    for (size_t i = 0; i < EVIDENCES; i++) {
        survey->evidence[i] += plan.evidence[i];
    }
    add_items(survey, directory, &plan, index);
    plan_free(&plan);
    close(descriptor);
}

/* ---- what else is in the cache ---- */

static void survey_list(tree_survey *survey, const path_list *list, finding_kind kind,
                        const char *text)
{
    survey->findings.owner.kind = OWNER_NONE;
    for (size_t i = 0; i < list->count; i++) {
        findings_add(&survey->findings, kind, must(strdup(list->paths[i])), must(strdup(text)));
    }
}

/* Only an empty directory that is old is a leftover, because a program that creates a directory
 * needs it a moment later. */
static void survey_empty(const cache_tree *tree, const inspection_rules *rules, tree_survey *survey)
{
    for (size_t i = 0; i < tree->empty.count; i++) {
        struct stat stat;
        int directory = open_directory_below(tree->root, tree->empty.paths[i]);
        if (directory < 0) {
            continue;
        }
        if (fstat(directory, &stat) == 0 && rules->now_s - stat.st_mtim.tv_sec >= rules->grace_s) {
            survey->findings.owner = (item_owner){OWNER_EMPTY, i};
            findings_add(&survey->findings, FINDING_LEFTOVER, must(strdup(tree->empty.paths[i])),
                         must(strdup("is an empty directory")));
        }
        close(directory);
    }
}

static void survey_root_lock(const cache_tree *tree, int which, const inspection_rules *rules,
                             const char *meaning, tree_survey *survey)
{
    const root_file *lock = &tree->files[which];
    if (!lock->facts.is_there) {
        return;
    }
    bool is_held = lock_is_held(&lock->facts, rules);
    survey->findings.owner = (item_owner){OWNER_ROOT_LOCK, (size_t)which};
    findings_add(
        &survey->findings, is_held ? FINDING_IN_USE : FINDING_STALE_LOCK, must(strdup(lock->path)),
        must(strdup(is_held ? "has been locked for less than the grace period" : meaning)));
}

/* What cache_size.txt contains, and what it should contain. */
typedef struct size_facts {
    bool is_readable, is_number;
    uint64_t recorded, size;
} size_facts;

static bool is_right(const size_facts *facts)
{
    return facts->is_readable && facts->is_number && facts->recorded == facts->size;
}

static size_facts read_size(const cache_tree *tree)
{
    size_facts facts = {.size = tree_size(tree)};
    facts.is_readable = read_number_in(tree->root, SIZE_NAME, &facts.is_number, &facts.recorded);
    return facts;
}

/* A program that has written an item takes the lock and counts the item a moment later. So a wrong
 * number is read again. It is reported only if nothing has changed and the lock is not held. */
static bool is_settled(const cache_tree *tree, const inspection_rules *rules,
                       const size_facts *facts)
{
    cache_tree now;
    if (!tree_read(tree->path, &now)) {
        return true;
    }
    const size_facts again = read_size(&now);
    const bool is_locked = lock_is_held(&now.files[ROOT_SIZE_LOCK].facts, rules);
    tree_free(&now);
    return !is_locked && again.is_readable == facts->is_readable &&
           again.is_number == facts->is_number && again.recorded == facts->recorded &&
           again.size == facts->size;
}

static void survey_size(const cache_tree *tree, const inspection_rules *rules, tree_survey *survey)
{
    if (!tree->files[ROOT_SIZE].facts.is_there ||
        lock_is_held(&tree->files[ROOT_SIZE_LOCK].facts, rules)) {
        return;
    }
    const size_facts facts = read_size(tree);
    if (is_right(&facts) || !is_settled(tree, rules, &facts)) {
        return;
    }
    survey->findings.owner = (item_owner){OWNER_SIZE, 0};
    if (!facts.is_readable) {
        findings_add(&survey->findings, FINDING_UNREADABLE, must(strdup(SIZE_NAME)),
                     must(strdup("can't be read")));
    } else if (!facts.is_number) {
        findings_add(
            &survey->findings, FINDING_BAD_SIZE, must(strdup(SIZE_NAME)),
            must(strdup("contains no number: programs that limit the cache's size crash")));
    } else {
        findings_add(&survey->findings, FINDING_WRONG_SIZE, must(strdup(SIZE_NAME)),
                     text_of("contains %" PRIu64 " bytes, but the items have %" PRIu64,
                             facts.recorded, facts.size));
    }
}

void survey_make(cache_tree *tree, const inspection_rules *rules, tree_survey *ret_survey)
{
    static const char *const hang =
        "is an abandoned lock: programs that limit the cache's size hang";
    static const char *const grow = "is an abandoned lock: nothing is evicted any more";
    tree_survey survey = {0};
    for (size_t i = 0; i < tree->directory_count; i++) {
        survey_directory(tree, i, rules, &survey);
    }
    survey_empty(tree, rules, &survey);
    survey_list(&survey, &tree->others, FINDING_OTHER_FILE, "is not of this format");
    survey_list(&survey, &tree->unreadable, FINDING_UNREADABLE, "can't be read");
    survey_root_lock(tree, ROOT_SIZE_LOCK, rules, hang, &survey);
    survey_root_lock(tree, ROOT_EVICTION_LOCK, rules, grow, &survey);
    survey_root_lock(tree, ROOT_EVICTION_LOCK_INSIDE, rules, grow, &survey);
    survey_size(tree, rules, &survey);
    *ret_survey = survey;
}

void survey_free(tree_survey *survey)
{
    findings_free(&survey->findings);
    free(survey->items);
    *survey = (tree_survey){0};
}

/* ---- repair ---- */

bool repair_report(outcome result, const char *path)
{
    if (result == OUTCOME_IN_USE) {
        complain("%s: not repaired: in use, unreadable, or made with a different C++ library",
                 path);
    } else if (result == OUTCOME_FAILED) {
        complain("%s: %s", path, strerror(errno));
    }
    return result != OUTCOME_FAILED;
}

static bool repair_owner(const cache_tree *tree, const inspection_rules *rules, item_owner owner,
                         tree_survey *survey, repair_counts *repaired)
{
    outcome result = OUTCOME_IN_USE;
    const char *path = SIZE_NAME;
    switch (owner.kind) {
    case OWNER_DIRECTORY:
        path = tree->directories[owner.index].path;
        result = repair_directory(tree, &tree->directories[owner.index], rules, repaired);
        break;
    case OWNER_EMPTY:
        path = tree->empty.paths[owner.index];
        result = repair_empty_directory(tree, path);
        break;
    case OWNER_ROOT_LOCK:
        path = tree->files[owner.index].path;
        result = repair_root_lock(tree, (int)owner.index, rules);
        break;
    case OWNER_SIZE:
        result = repair_size(tree, rules);
        break;
    case OWNER_NONE:
        return true;
    }
    if (result == OUTCOME_DONE) {
        findings_set_repaired(&survey->findings, owner);
    }
    return repair_report(result, path);
}

static bool are_one(item_owner a, item_owner b)
{
    return a.kind == b.kind && a.index == b.index;
}

/* Returns true if the items prove that the directory is a cache of this format. Empty files in the
 * runtime's folders prove this too, because a power failure can leave a cache with such files. They
 * prove nothing if there are strange items. */
static bool proves_format(const tree_survey *survey)
{
    const size_t *evidence = survey->evidence;
    return evidence[EVIDENCE_WHOLE] > 0 ||
           (evidence[EVIDENCE_EMPTY] > 0 && evidence[EVIDENCE_STRANGE] == 0);
}

/* Returns true if findings of this owner must not be repaired without proof that the directory is a
 * cache. Only an empty lock at the root with the runtime's name needs no proof. */
static bool needs_proof(item_owner owner)
{
    return owner.kind != OWNER_ROOT_LOCK;
}

bool survey_repair(const cache_tree *tree, const inspection_rules *rules, tree_survey *survey,
                   repair_counts *repaired)
{
    bool all_went_well = true, lacks_proof = false;
    item_owner last = {.kind = OWNER_NONE};
    for (size_t i = 0; i < survey->findings.count; i++) {
        const dpcpp_finding *finding = &survey->findings.items[i];
        /* All findings of one owner follow each other in the list. */
        if (finding_class_of(finding) == CLASS_LEFT || finding->is_repaired ||
            are_one(finding->owner, last)) {
            continue;
        }
        last = finding->owner;
        if (!proves_format(survey) && needs_proof(last)) {
            lacks_proof = true;
            continue;
        }
        all_went_well = repair_owner(tree, rules, last, survey, repaired) && all_went_well;
    }
    if (repaired->removed > 0) {
        all_went_well = repair_report(repair_size(tree, rules), SIZE_NAME) && all_went_well;
    }
    if (lacks_proof) {
        complain(
            "%s: not repaired: no item is whole, so this may not be a cache, or may be one of a "
            "newer format; if it is a cache, nothing is lost by removing it",
            tree->path);
    }
    return all_went_well;
}

/* ---- output ---- */

size_t survey_problems(const tree_survey *survey)
{
    return findings_count(&survey->findings, CLASS_PROBLEM, NULL);
}

json_t *survey_to_json(const cache_tree *tree, const tree_survey *survey,
                       const repair_counts *repaired)
{
    json_t *object = must(json_object());
    json_add(object, "layout", json_text_or_null("dpcpp"));
    json_add(object, "directory", json_text_or_null(tree->path));
    json_add(object, "checked", json_number(survey->checked));
    json_add(object, "ok", json_number(survey->item_count));
    json_add(object, "problems", json_number(survey_problems(survey)));
    json_add(object, "removed", json_number(repaired->removed));
    json_add(object, "removed_bytes", json_number(repaired->removed_bytes));
    json_add(object, "findings", findings_to_json(&survey->findings));
    return object;
}
