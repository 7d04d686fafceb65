/* SPDX-License-Identifier: Apache-2.0 */
#include "findings.h"

#include <stdlib.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"

static const struct {
    const char *name;
    finding_class class;
} kinds[FINDING_KINDS] = {
    [FINDING_BAD_BIN] = {"bad-bin", CLASS_PROBLEM},
    [FINDING_BAD_SRC] = {"bad-src", CLASS_PROBLEM},
    [FINDING_HALF] = {"half", CLASS_PROBLEM},
    [FINDING_STALE_LOCK] = {"stale-lock", CLASS_PROBLEM},
    [FINDING_UNREACHABLE] = {"unreachable", CLASS_PROBLEM},
    [FINDING_BAD_STAMP] = {"bad-stamp", CLASS_PROBLEM},
    [FINDING_BAD_SIZE] = {"bad-size", CLASS_PROBLEM},
    [FINDING_COPY] = {"copy", CLASS_WASTE},
    [FINDING_LEFTOVER] = {"leftover", CLASS_WASTE},
    [FINDING_WRONG_SIZE] = {"wrong-size", CLASS_WASTE},
    [FINDING_IN_USE] = {"in-use", CLASS_LEFT},
    [FINDING_FOREIGN_KEY] = {"foreign-key", CLASS_LEFT},
    [FINDING_OTHER_FILE] = {"other-file", CLASS_LEFT},
    [FINDING_UNREADABLE] = {"unreadable", CLASS_LEFT},
};

static const char *const class_names[] = {
    [CLASS_PROBLEM] = "problem", [CLASS_WASTE] = "waste", [CLASS_LEFT] = "left"};

void findings_add(dpcpp_findings *findings, finding_kind kind, char *path, char *text)
{
    findings->items =
        array_grown(findings->items, findings->count, &findings->capacity, sizeof *findings->items);
    findings->items[findings->count++] =
        (dpcpp_finding){.kind = kind, .owner = findings->owner, .path = path, .text = text};
}

void findings_cut(dpcpp_findings *findings, size_t count)
{
    while (findings->count > count) {
        findings->count--;
        free(findings->items[findings->count].path);
        free(findings->items[findings->count].text);
    }
}

void findings_free(dpcpp_findings *findings)
{
    findings_cut(findings, 0);
    free(findings->items);
    *findings = (dpcpp_findings){0};
}

finding_class finding_class_of(const dpcpp_finding *finding)
{
    return kinds[finding->kind].class;
}

size_t findings_count(const dpcpp_findings *findings, finding_class which, size_t *ret_all)
{
    size_t all = 0, open = 0;
    for (size_t i = 0; i < findings->count; i++) {
        if (finding_class_of(&findings->items[i]) == which) {
            all++;
            open += !findings->items[i].is_repaired;
        }
    }
    if (ret_all != NULL) {
        *ret_all = all;
    }
    return open;
}

void findings_set_repaired(dpcpp_findings *findings, item_owner owner)
{
    for (size_t i = 0; i < findings->count; i++) {
        dpcpp_finding *finding = &findings->items[i];
        if (finding->owner.kind == owner.kind && finding->owner.index == owner.index &&
            finding_class_of(finding) != CLASS_LEFT) {
            finding->is_repaired = true;
        }
    }
}

void findings_print(const dpcpp_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        const dpcpp_finding *finding = &findings->items[i];
        complain("%s: %s: %s%s", finding->path, kinds[finding->kind].name, finding->text,
                 finding->is_repaired ? " (repaired)" : "");
    }
}

json_t *findings_to_json(const dpcpp_findings *findings)
{
    json_t *array = must(json_array());
    for (size_t i = 0; i < findings->count; i++) {
        const dpcpp_finding *finding = &findings->items[i];
        json_t *object = must(json_object());
        json_add(object, "kind", json_text_or_null(kinds[finding->kind].name));
        json_add(object, "class", json_text_or_null(class_names[kinds[finding->kind].class]));
        json_add(object, "path", json_text_or_null(finding->path));
        json_add(object, "text", json_text_or_null(finding->text));
        json_add(object, "repaired", must(json_boolean(finding->is_repaired)));
        json_push(array, object);
    }
    return array;
}
