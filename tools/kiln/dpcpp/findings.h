/* SPDX-License-Identifier: Apache-2.0
 *
 * The findings of a check, which can be printed as text or as JSON.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum finding_kind {
    /* Problems, which make programs crash, hang, or build the same code again. */
    FINDING_BAD_BIN,
    FINDING_BAD_SRC,
    FINDING_HALF,
    FINDING_STALE_LOCK,
    FINDING_UNREACHABLE,
    FINDING_BAD_STAMP,
    FINDING_BAD_SIZE,
    /* Waste: useless files. */
    FINDING_COPY,
    FINDING_LEFTOVER,
    FINDING_WRONG_SIZE,
    /* Not repaired. */
    FINDING_IN_USE,
    FINDING_FOREIGN_KEY,
    FINDING_OTHER_FILE,
    FINDING_UNREADABLE,
    FINDING_KINDS
} finding_kind;

typedef enum finding_class { CLASS_PROBLEM, CLASS_WASTE, CLASS_LEFT } finding_class;

/* The owner of a finding, which is the object that must be repaired. A repair handles all findings
 * of one owner together. */
typedef enum owner_kind {
    OWNER_DIRECTORY,
    OWNER_EMPTY,
    OWNER_ROOT_LOCK,
    OWNER_SIZE,
    OWNER_NONE
} owner_kind;

typedef struct item_owner {
    owner_kind kind;
    size_t index; /* index in the tree's list for that kind */
} item_owner;

typedef struct dpcpp_finding {
    finding_kind kind;
    item_owner owner;
    char *path; /* relative to the root */
    char *text;
    bool is_repaired;
} dpcpp_finding;

typedef struct dpcpp_findings {
    item_owner owner; /* the owner of the findings that are added next */
    dpcpp_finding *items;
    size_t count, capacity;
} dpcpp_findings;

/* Adds a finding for the current owner. Takes over both texts. */
void findings_add(dpcpp_findings *findings, finding_kind kind, char *path, char *text);

/* Removes all findings except the first @count. */
void findings_cut(dpcpp_findings *findings, size_t count);

void findings_free(dpcpp_findings *findings);

finding_class finding_class_of(const dpcpp_finding *finding);

/* Returns the number of findings of a class that are not repaired. If @ret_all is not NULL, stores
 * in it the number of all findings of the class. */
size_t findings_count(const dpcpp_findings *findings, finding_class which, size_t *ret_all);

/* Marks all findings of an owner as repaired, except those that a repair does not touch. */
void findings_set_repaired(dpcpp_findings *findings, item_owner owner);

/* Prints the findings on stderr. Adds "repaired" to each finding that was repaired. */
void findings_print(const dpcpp_findings *findings);

json_t *findings_to_json(const dpcpp_findings *findings);
