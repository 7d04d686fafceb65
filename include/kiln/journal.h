/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a store's journal: what programs built, and what they found in the store. Contexts of
 * kiln/program.h and the layers write the journal if KILN_STORE_JOURNAL is set; kiln_store_get and
 * kiln_store_put do not, so their callers use kiln_store_add_journal_event. docs/stores.md
 * describes the file's bytes.
 */
#ifndef KILN_JOURNAL_H
#define KILN_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/export.h>
#include <kiln/key.h>
#include <kiln/status.h>
#include <kiln/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an event is. The values are stored and never change. */
typedef enum kiln_journal_kind {
    KILN_JOURNAL_HIT = 1,        /* the store had the entry */
    KILN_JOURNAL_BUILD = 2,      /* the device runtime built */
    KILN_JOURNAL_FAILURE = 3,    /* the device runtime refused to build */
    KILN_JOURNAL_MEMORY_HITS = 4 /* how often memory had what one process requested, since the
                                  process last recorded this; without digest, device and name */
} kiln_journal_kind;

/* One event. The texts are valid during the callback. They come from programs, and can contain any
 * bytes except NUL. A reader trusts none of an event's contents. */
typedef struct kiln_journal_event {
    size_t struct_size;
    uint32_t kind; /* a kiln_journal_kind */
    uint32_t pid;
    /* How many hits or builds this event stands for. One build for several devices has an event for
     * each device; only the first has a count of 1 and durations, and all others have zeros. */
    uint64_t count;
    kiln_digest digest; /* of the key */
    int64_t time_ns;    /* Unix nanoseconds: the end of the request */
    uint64_t build_ns, load_ns, wait_ns;
    uint64_t saved_ns; /* of hits: what the build had cost, less the loading */
    /* KILN_OK: the store had the entry; otherwise the reason why it did not: KILN_MISS,
     * KILN_E_CORRUPT, KILN_E_REFUSED, … */
    kiln_status store;
    kiln_status kept;    /* of builds: KILN_OK, or the reason why the result is not kept */
    const char *program; /* the name of the executable */
    /* Platform, device and driver, and names, as in kiln_provenance. "": unknown. A hit has
     * neither: the entry of its digest has them, and the event of its build. */
    const char *device, *name;
} kiln_journal_event;

/* Receives an event. A result other than 0 ends the walk. */
typedef int (*kiln_journal_fn)(void *user, const kiln_journal_event *event);

/* What a walk through a journal found. */
typedef struct kiln_journal_report {
    size_t struct_size;
    uint64_t events;  /* visited */
    uint64_t damaged; /* runs of bytes that are not a record: torn, damaged, or not of Kiln */
    uint64_t newer;   /* records of a newer format, which were skipped */
    uint64_t bytes;   /* of the journal's files */
} kiln_journal_report;

/* Visits the events of a store's journal. Each process appends its events in their order; those of
 * several processes are mixed. Only the latest events are kept: about 150,000 to 300,000
 * hits, or half as many builds.
 *
 * @visit       called on this thread for each event; not NULL
 * @user        passed to @visit; may be NULL
 * @ret_report  [in, out] the caller sets its struct_size; may be NULL
 * Returns KILN_OK; KILN_MISS: there is no journal; KILN_E_UNSUPPORTED: this kind of store has none;
 * KILN_E_DENIED: a file of the journal is a symbolic link, belongs to a different user, or can be
 * read or written by others; KILN_E_IO; KILN_E_NO_MEMORY; KILN_E_INVALID. Threads: any. Blocks: on
 * reading. */
KILN_API kiln_status kiln_store_each_journal_event(kiln_store *store, kiln_journal_fn visit,
                                                   void *user, kiln_journal_report *ret_report);

/* Does the same as kiln_store_each_journal_event, for the file that KILN_RECORD names.
 *
 * @path  absolute; not NULL */
KILN_API kiln_status kiln_journal_read_file(const char *path, kiln_journal_fn visit, void *user,
                                            kiln_journal_report *ret_report);

/* Adds an event to the journal of a store: for callers that build without a context of
 * kiln/program.h, which does this itself. Does nothing if the store keeps no journal. A failure
 * does no harm to the entries.
 *
 * @event  the caller sets struct_size, kind, count, digest, and what it knows of the durations,
 *         statuses, device and name; the library sets time_ns, pid and program; not NULL
 * Returns KILN_OK; KILN_E_DENIED: the file of the journal is a symbolic link, belongs to a
 * different user, or can be read or written by others; KILN_E_READONLY; KILN_E_FULL; KILN_E_IO;
 * KILN_E_NO_MEMORY; KILN_E_UNSUPPORTED: @event sets a field that this version does not know;
 * KILN_E_INVALID. Threads: any. Blocks: on writing. */
KILN_API kiln_status kiln_store_add_journal_event(kiln_store *store,
                                                  const kiln_journal_event *event);

/* Does the same as kiln_store_add_journal_event, for the file that KILN_RECORD names.
 *
 * @path  absolute; not NULL; the file is created if it does not exist */
KILN_API kiln_status kiln_journal_add_to_file(const char *path, const kiln_journal_event *event);

#ifdef __cplusplus
}
#endif

#endif
