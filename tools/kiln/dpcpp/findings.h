/* SPDX-License-Identifier: Apache-2.0
 *
 * What a check found, and how it is told.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum finding_kind {
    /* Problems: programs die, hang, or build again and again. */
    FINDING_BAD_BIN,
    FINDING_BAD_SRC,
    FINDING_HALF,
    FINDING_STALE_LOCK,
    FINDING_UNREACHABLE,
    FINDING_BAD_STAMP,
    FINDING_BAD_SIZE,
    /* Waste. */
    FINDING_COPY,
    FINDING_LEFTOVER,
    FINDING_WRONG_SIZE,
    /* Left as it is. */
    FINDING_IN_USE,
    FINDING_FOREIGN_KEY,
    FINDING_OTHER_FILE,
    FINDING_UNREADABLE,
    FINDING_KINDS
};

enum finding_class { CLASS_PROBLEM, CLASS_WASTE, CLASS_LEFT };

/* What is mended as one. */
enum owner_kind { OWNER_DIRECTORY, OWNER_EMPTY, OWNER_ROOT_LOCK, OWNER_SIZE, OWNER_NONE };

struct owner {
    enum owner_kind kind;
    size_t index; /* in the tree's list of those */
};

struct finding {
    enum finding_kind kind;
    struct owner owner;
    char *path; /* relative to the root */
    char *text;
    bool is_mended;
};

struct findings {
    struct owner owner; /* of those that are added next */
    struct finding *items;
    size_t count, capacity;
};

/* Takes over both texts. */
void findings_add(struct findings *findings, enum finding_kind kind, char *path, char *text);

void findings_free(struct findings *findings);

enum finding_class finding_class_of(const struct finding *finding);

/* How many of a class are not mended; all in @ret_all where that is not NULL. */
size_t findings_count(const struct findings *findings, enum finding_class which, size_t *ret_all);

/* All that one owner has, but what is to be left as it is, is mended. */
void findings_set_mended(struct findings *findings, struct owner owner);

/* Says on stderr what was found; "mended" where that was done. */
void findings_print(const struct findings *findings);

json_t *findings_to_json(const struct findings *findings);
