/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects the entries that a command works on, by the options that all such commands share and by
 * prefixes of digests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/store_tools.h>

#include "digest_prefix.h"

typedef struct entry_filter {
    /* What the entry's device, driver, name, and the name of the program that built it must
     * contain; NULL: anything. */
    const char *device, *driver, *name, *program;
    const char *only; /* a file of digests, as `kiln run --record` writes it; NULL: none */
    const char *older_than, *larger_than, *at_most; /* the values of these options, or NULL */

    /* The caller may set these before the filter is used. */
    bool takes_requests; /* requests can be selected, too */
    bool reads_drivers;  /* drivers are wanted; entry_filter_read sets it if --driver was given */

    /* What entry_filter_read makes of the options. */
    int64_t used_before_s; /* only entries last used before; 0: any */
    uint64_t larger_than_bytes;
    size_t limit;            /* 0: none */
    digest_prefix *prefixes; /* one of these must match; none: any digest */
    uint64_t *matches;       /* how many selected entries each prefix matches */
    size_t prefix_count;

    bool is_chosen; /* exactly the items with the digests below are selected */
    char (*chosen)[KILN_DIGEST_TEXT_SIZE];
    size_t chosen_count, chosen_capacity;
} entry_filter;

/* The options of a filter, for the table of a command line. */
#define ENTRY_FILTER_OPTIONS(filter)                                                               \
    {.name = "device", .text = &(filter).device}, {.name = "driver", .text = &(filter).driver},    \
        {.name = "name", .text = &(filter).name}, {.name = "program", .text = &(filter).program},  \
        {.name = "older-than", .text = &(filter).older_than},                                      \
        {.name = "larger-than", .text = &(filter).larger_than},                                    \
        {.name = "only", .text = &(filter).only},                                                  \
    {                                                                                              \
        .name = "limit", .text = &(filter).at_most                                                 \
    }

/* The end of the text of --help of a command whose synopsis names [FILTERS]. */
#define ENTRY_FILTER_USAGE                                                                         \
    "\n"                                                                                           \
    "FILTERS select entries for which all of these hold. A text matches in upper or lower case.\n" \
    "  --device TEXT       the device contains this text\n"                                        \
    "  --driver TEXT       the name and version of the driver or compiler contain this text\n"     \
    "  --name TEXT         the name contains this text\n"                                          \
    "  --program TEXT      the name of the program that built the entry contains this text\n"      \
    "  --older-than AGE    not used for this long: days, or a number with d, h, m or s\n"          \
    "  --larger-than SIZE  the file is larger: bytes, or a number with a unit, such as 10MiB\n"    \
    "  --only FILE         'kiln run --record FILE' has listed the entry\n"                        \
    "  --limit N           at most N entries, those that were used most recently\n"

/* Reads the values of the options, prefixes as digest_prefix_parse does, and the digests in the
 * file of --only. Ends the tool if one is wrong, or the file can't be read or lists nothing. The
 * caller passes the filter to entry_filter_done.
 *
 * @operands  ended by NULL */
void entry_filter_read(entry_filter *filter, const char *command, char **operands);

/* Returns whether any of the options was given. */
bool entry_filter_is_set(const entry_filter *filter);

/* Does the same, but does not count --older-than. */
bool entry_filter_is_set_otherwise(const entry_filter *filter);

/* Returns whether an item is selected, without regard to the limit.
 *
 * @driver  its driver; NULL: it is not known, and does not count */
bool entry_filter_selects(entry_filter *filter, const kiln_item_info *info, const char *driver);

/* Does the same, and determines the driver if the filter needs it. */
bool entry_filter_selects_item(entry_filter *filter, kiln_item *item, const kiln_item_info *info);

/* Returns whether the driver that a key names is selected. */
bool entry_filter_selects_key(const entry_filter *filter, const kiln_key *key);

/* Adds a digest to those that are chosen. After entry_filter_choose_end, the filter selects exactly
 * the items with these digests. */
void entry_filter_choose(entry_filter *filter, const char *digest);
void entry_filter_choose_end(entry_filter *filter);

/* Returns whether each prefix matched an entry. Reports the prefixes that did not. */
bool entry_filter_check(const entry_filter *filter);

void entry_filter_done(entry_filter *filter);
