/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect.h"

#include <stdlib.h>
#include <string.h>

#include "../text/memory.h"

/* The state of an examination of a directory's slots. Like the runtime, it starts at the lowest
 * slot. */
typedef struct slot_inspection {
    int descriptor;
    const item_directory *directory;
    const inspection_rules *rules;
    dpcpp_findings *findings;
    inspection_plan *plan;
    uint64_t next_number;
    bool is_blocked; /* the runtime does not look at the slots above */
    size_t kept;
    bool has_several_keys;
} slot_inspection;

static void report(const slot_inspection *inspection, const cache_slot *slot, finding_kind kind,
                   const char *text)
{
    if (inspection->findings != NULL) {
        findings_add(inspection->findings, kind, slot_path(inspection->directory, slot),
                     must(strdup(text)));
    }
}

bool lock_is_held(const file_facts *lock, const inspection_rules *rules)
{
    return lock->is_there && (lock->size > 0 || rules->now_s - lock->changed_s < rules->grace_s);
}

int use_compare(const slot_use *a, const slot_use *b)
{
    if (a->last_access_ns != b->last_access_ns) {
        return a->last_access_ns > b->last_access_ns ? -1 : 1;
    }
    int order = strcmp(a->directory, b->directory);
    return order != 0 ? order : (a->number > b->number) - (a->number < b->number);
}

/* ---- locks ---- */

static void judge_lock(slot_inspection *inspection, const cache_slot *slot, slot_file which,
                       const char *meaning)
{
    const file_facts *lock = &slot->files[which];
    if (lock_is_held(lock, inspection->rules)) {
        inspection->plan->must_be_left = true;
        report(inspection, slot, FINDING_IN_USE,
               lock->size > 0 ? "is locked by a file that the runtime did not make"
                              : "has been locked for less than the grace period");
    } else if (lock->is_there) {
        inspection->plan->has_work = true;
        report(inspection, slot, FINDING_STALE_LOCK, meaning);
    }
}

static void judge_locks(slot_inspection *inspection, const cache_slot *slot)
{
    judge_lock(inspection, slot, SLOT_LOCK,
               slot_has_content(slot)
                   ? "an abandoned lock hides the item"
                   : "an abandoned lock occupies this number, and hides the items above it");
    judge_lock(inspection, slot, SLOT_STAMP_LOCK,
               "an abandoned lock keeps its time of use from being updated");
}

/* ---- what is wrong with an item ---- */

static void report_fault(const slot_inspection *inspection, const cache_slot *slot,
                         finding_kind kind, const char *file, const char *fault)
{
    char *text = text_of("its %s %s", file, fault);
    report(inspection, slot, kind, text);
    free(text);
}

static void report_faults(const slot_inspection *inspection, const cache_slot *slot,
                          const slot_item *item)
{
    if (item->bin_fault != NULL) {
        report_fault(inspection, slot, FINDING_BAD_BIN, ".bin", item->bin_fault);
    }
    if (item->src_fault != NULL) {
        report_fault(inspection, slot, FINDING_BAD_SRC, ".src", item->src_fault);
    }
    if (!slot->files[SLOT_BIN].is_there) {
        report(inspection, slot, FINDING_HALF, "it has a .src, but no .bin");
    } else if (inspection->directory->kind == ITEM_IMAGE && !slot->files[SLOT_SRC].is_there) {
        report(inspection, slot, FINDING_HALF, "it has a .bin, but no .src");
    }
}

/* The runtime takes the first slot with the right key. Returns true if the runtime's search ends at
 * this slot, but finds no usable item in it. */
static bool ends_search(const item_directory *directory, const cache_slot *slot,
                        const slot_item *item)
{
    bool key_is_right =
        directory->kind != ITEM_IMAGE || (slot->files[SLOT_SRC].is_there && !item->src_fault);
    bool bin_is_bad = !slot->files[SLOT_BIN].is_there || item->bin_fault != NULL;
    return key_is_right && bin_is_bad && !slot->files[SLOT_LOCK].is_there;
}

/* ---- whole items ---- */

static bool is_copy_of_kept(slot_inspection *inspection, size_t index)
{
    const item_directory *directory = inspection->directory;
    for (size_t i = 0; i < index; i++) {
        if (inspection->plan->slots[i].verdict == SLOT_KEEP &&
            slots_have_same_key(inspection->descriptor, directory, &directory->slots[i],
                                &directory->slots[index])) {
            return true;
        }
    }
    inspection->has_several_keys = inspection->has_several_keys || inspection->kept > 0;
    return false;
}

static void keep(slot_inspection *inspection, size_t index, const slot_item *item)
{
    const cache_slot *slot = &inspection->directory->slots[index];
    slot_plan *plan = &inspection->plan->slots[index];
    if (inspection->is_blocked) {
        report(inspection, slot, FINDING_UNREACHABLE,
               "the runtime's search ends at a lower number");
    }
    plan->verdict = SLOT_KEEP;
    plan->place = slot->number == SLOT_IR ? SLOT_IR : inspection->kept;
    plan->restamp = item->stamp_is_damaged;
    inspection->kept++;
    if (item->stamp_is_damaged) {
        report(inspection, slot, FINDING_BAD_STAMP, "its _access_time.txt contains no number");
    }
    if (plan->restamp || plan->place != slot->number) {
        inspection->plan->has_work = true;
    }
}

static void judge_whole(slot_inspection *inspection, size_t index, const slot_item *item)
{
    const inspection_rules *rules = inspection->rules;
    inspection->plan->slots[index].last_access_ns = item->last_access_ns;
    const slot_use use = {item->last_access_ns, inspection->directory->path,
                          inspection->directory->slots[index].number};
    if (rules->has_cutoff && use_compare(&use, &rules->cutoff) >= 0) {
        inspection->plan->has_work = true;
    } else if (is_copy_of_kept(inspection, index)) {
        report(inspection, &inspection->directory->slots[index], FINDING_COPY,
               "a lower item has the same key");
        inspection->plan->has_work = true;
    } else {
        keep(inspection, index, item);
    }
}

/* ---- a slot ---- */

static void judge_content(slot_inspection *inspection, size_t index)
{
    const cache_slot *slot = &inspection->directory->slots[index];
    slot_item item;
    item_read(inspection->descriptor, inspection->directory, slot, ITEM_WHOLE, &item);
    inspection->plan->items++;
    inspection->plan->evidence[item.evidence]++;
    if (!item.is_readable) {
        report(inspection, slot, FINDING_UNREADABLE, "can't be read");
        inspection->plan->must_be_left = true;
    } else if (item.has_foreign_key) {
        report(inspection, slot, FINDING_FOREIGN_KEY,
               "its path was not made with this machine's C++ library");
        inspection->plan->has_foreign_keys = true;
        inspection->plan->has_work =
            inspection->plan->has_work || !slot->files[SLOT_BIN].is_there || item.bin_fault != NULL;
    } else if (item_is_whole(inspection->directory, slot, &item)) {
        judge_whole(inspection, index, &item);
    } else {
        report_faults(inspection, slot, &item);
        inspection->plan->has_work = true;
        inspection->is_blocked =
            inspection->is_blocked || ends_search(inspection->directory, slot, &item);
    }
    item_clear(&item);
}

static void judge_slot(slot_inspection *inspection, size_t index)
{
    const cache_slot *slot = &inspection->directory->slots[index];
    judge_locks(inspection, slot);
    if (slot->number != SLOT_IR) {
        bool is_hole = slot->number != inspection->next_number || !slot_has_content(slot);
        inspection->is_blocked = inspection->is_blocked || is_hole;
        inspection->next_number = slot->number + 1;
    }
    if (slot_has_content(slot)) {
        judge_content(inspection, index);
    } else if (slot->files[SLOT_STAMP].is_there) {
        report(inspection, slot, FINDING_LEFTOVER,
               "the time of use of an item that no longer exists");
        inspection->plan->evidence[EVIDENCE_EMPTY] += is_path_of_runtime(inspection->directory);
        inspection->plan->has_work = true;
    }
}

/* It is possible that a reader compares a key before this repair, and opens the .bin with the same
 * number after the repair. So an item must not move to a number that might have had a different
 * key. A directory has several keys only if 64-bit hashes collide, which practically never happens.
 * In that case, items that would have to move are removed instead. */
static void avoid_moves_between_keys(slot_inspection *inspection)
{
    for (size_t i = 0; inspection->has_several_keys && i < inspection->directory->slot_count; i++) {
        slot_plan *plan = &inspection->plan->slots[i];
        if (plan->verdict == SLOT_KEEP && plan->place != inspection->directory->slots[i].number) {
            plan->verdict = SLOT_REMOVE;
        }
    }
}

void inspect(int descriptor, const item_directory *directory, const inspection_rules *rules,
             dpcpp_findings *findings, inspection_plan *ret_plan)
{
    inspection_plan plan = {0};
    slot_inspection inspection = {.descriptor = descriptor,
                                  .directory = directory,
                                  .rules = rules,
                                  .findings = findings,
                                  .plan = &plan};
    plan.slots = must(calloc(directory->slot_count + 1, sizeof *plan.slots));
    for (size_t i = 0; i < directory->slot_count; i++) {
        plan.slots[i].verdict = SLOT_REMOVE;
    }
    for (size_t i = 0; i < directory->slot_count; i++) {
        judge_slot(&inspection, i);
    }
    avoid_moves_between_keys(&inspection);
    *ret_plan = plan;
}

void plan_free(inspection_plan *plan)
{
    free(plan->slots);
    *plan = (inspection_plan){0};
}
