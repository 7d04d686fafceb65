/* SPDX-License-Identifier: Apache-2.0
 *
 * What a store's journal says about a period: sums for each day, program, device and driver, and
 * the builds that took the most time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/journal.h>

/* Sums of what happened with one label. */
typedef struct tally {
    char *label;
    uint64_t hits, memory_hits, builds, failures;
    uint64_t saved_ns, lost_ns; /* lost: by builds, and by waiting */
} tally;

typedef struct tally_list {
    tally **items;
    size_t count, capacity;
    void *tree; /* of the same items, by label (search.h) */
} tally_list;

/* What is known about one digest. */
typedef struct built_key {
    char digest[KILN_DIGEST_TEXT_SIZE];
    char *program, *device, *name; /* "": unknown */
    uint64_t builds, failures, hits, lost_ns;
    int64_t stored_ns;       /* of the last event after which the entry was stored; 0: unknown */
    int64_t missed_ns;       /* of the last build in the period; 0: there was none */
    int64_t before_ns;       /* stored_ns before that build */
    kiln_status store, kept; /* of that build */
    bool has_failed;         /* that build */
} built_key;

typedef struct use_history {
    int64_t since_ns;          /* the begin of the period; 0: all that the journal has */
    int64_t first_ns, last_ns; /* of the period's events; 0: there were none */
    tally total;               /* its label is NULL */
    tally_list days, programs, devices, drivers;
    built_key **keys; /* of all events, in the order of their digests */
    size_t key_count;
    void *key_tree;
    kiln_journal_report journal;
} use_history;

/* Reads the events of the period. A store without a journal has none. @ret_history must be zero
 * except for since_ns. Returns KILN_OK, or a status of kiln_store_each_journal_event. */
kiln_status history_read(kiln_store *store, use_history *ret_history);

/* Returns what is known about a digest, or NULL. */
built_key *history_key(const use_history *history, const char *digest);

/* Adds up the sums for each device and driver. Called after the names of devices that the journal
 * does not have were set in the history's keys. */
void history_sum_devices(use_history *history);

/* Sorts a list: the label that saved or lost most time comes first; days by their date. */
void tally_list_sort(tally_list *list, bool by_label);

/* Returns the sums of a label, which is added if it is missing. */
tally *tally_of(tally_list *list, const char *label);
void tally_list_free(tally_list *list);

void history_free(use_history *history);
