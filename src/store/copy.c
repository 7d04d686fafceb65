/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies entries from one store into another.
 */
#include <kiln/store_tools.h>

#include <string.h>

#include "base/error.h"
#include "base/sized_struct.h"
#include "entry/entry.h"
#include "store/signing/signers.h"
#include "store/store.h"

typedef struct copying {
    kiln_store *from, *into;
    kiln_copy_params params;
    kiln_copy_report report;
    unsigned unread_in_a_row; /* how many of the last reads from the source failed with KILN_E_IO */
    kiln_status status;       /* KILN_OK, or why the walk ended */
    bool is_of_source;        /* status comes from the source and not from the destination */
    /* If a server is asked for many items at once: the digests of the items that are to be copied,
     * and what the destination has under them. */
    bool has_batches;
    size_t waiting;
    kiln_digest digests[KILNI_STORE_MANY];
    kiln_status found[KILNI_STORE_MANY];
} copying;

/* The copy ends when this many reads in a row have failed with KILN_E_IO. A single unreadable file
 * does not end it. */
#define UNREAD_IN_A_ROW 3u

static bool is_wanted(const copying *work, const kiln_item_info *info)
{
    return !work->params.wants_item || work->params.wants_item(work->params.user, info) != 0;
}

/* Looks up a digest in the destination. Returns the statuses of kiln_store_get. KILN_E_UNSUPPORTED:
 * the destination cannot look up a digest. */
static kiln_status look_at_digest(const copying *work, const kiln_digest *digest)
{
    kiln_entry *entry = NULL;
    const kiln_status status = work->into->ops->read_digest(work->into, digest, &entry);
    kiln_entry_release(&entry);
    return status;
}

static kiln_status look_at_key(const copying *work, const kiln_key *key)
{
    kiln_entry *entry = NULL;
    size_t no_fill;
    const kiln_status status = kilni_store_find(work->into, key, NULL, true, &entry, &no_fill);
    kiln_entry_release(&entry);
    return status;
}

/* Returns true if the destination has the entry. This includes an entry of a newer format, since it
 * must not be replaced. */
static bool is_present(kiln_status found)
{
    return found == KILN_OK || found == KILN_E_VERSION;
}

static kiln_status put_plain(kiln_store *store, const kiln_entry *entry)
{
    kiln_entry *plain = NULL;
    kiln_status status = kilni_entry_make_plain(entry, NULL, &plain);
    if (status == KILN_OK) {
        status = kiln_store_put(store, plain);
    }
    kiln_entry_release(&plain);
    return status;
}

/* Returns true if the destination would refuse all further entries, too. */
static bool ends_copy(kiln_status status)
{
    return status == KILN_E_NO_MEMORY || status == KILN_E_IO || status == KILN_E_DENIED ||
           status == KILN_E_READONLY;
}

static void put(copying *work, const kiln_entry *entry)
{
    const kiln_status status = put_plain(work->into, entry);
    if (status == KILN_OK) {
        work->report.taken++;
        work->report.taken_bytes += kiln_entry_payload(entry).size;
    } else if (status == KILN_EXISTS) {
        work->report.present++;
    } else {
        work->report.refused++;
        work->status = ends_copy(status) ? status : KILN_OK;
    }
}

/* @found  what look_at_digest returned for the entry's digest */
static void take(copying *work, const kiln_entry *entry, kiln_status found)
{
    /* Capture requests are not copied. A process that serves the destination's requests would
     * otherwise build anything that the source asks for. */
    if (kilni_store_is_request(kiln_entry_key(entry))) {
        work->report.refused++;
        return;
    }
    if (work->params.wants_entry && work->params.wants_entry(work->params.user, entry) == 0) {
        return;
    }
    if (found == KILN_E_UNSUPPORTED && is_present(look_at_key(work, kiln_entry_key(entry)))) {
        work->report.present++;
        return;
    }
    put(work, entry);
}

static void count_unread(copying *work, kiln_status status)
{
    switch (status) {
    case KILN_MISS:
        work->report.gone++;
        return;
    case KILN_E_UNAUTHENTICATED:
        work->report.unauthenticated++;
        return;
    case KILN_E_NO_MEMORY:
        work->status = status;
        return;
    default:
        work->report.damaged++;
    }
}

static void note_reading(copying *work, kiln_status status)
{
    work->unread_in_a_row = status == KILN_E_IO ? work->unread_in_a_row + 1 : 0;
    if (work->unread_in_a_row == UNREAD_IN_A_ROW) {
        work->status = status;
        work->is_of_source = true;
    }
    if (status != KILN_OK) {
        count_unread(work, status);
    }
}

/* @found  what look_at_digest returned for the entry's digest
 * @status, @entry  the answer of the source */
static void take_answer(copying *work, kiln_status found, kiln_status status,
                        const kiln_entry *entry)
{
    note_reading(work, status);
    if (status == KILN_OK) {
        take(work, entry, found);
    }
}

/* @item  an item that is to be copied */
static void copy_item(copying *work, kiln_item *item, const kiln_digest *digest)
{
    const kiln_status found = look_at_digest(work, digest);
    if (is_present(found)) {
        work->report.present++;
        return;
    }
    kiln_entry *entry = NULL;
    const kiln_status status = kiln_item_read(item, &entry);
    take_answer(work, found, status, entry);
    kiln_entry_release(&entry);
}

/* ---- batches ---- */

static void note_found(void *user, size_t index, kiln_status status, const kiln_entry *entry)
{
    (void)entry;
    ((copying *)user)->found[index] = status;
}

static void take_if_going_on(void *user, size_t index, kiln_status status, const kiln_entry *entry)
{
    copying *work = user;
    if (work->status == KILN_OK) {
        take_answer(work, work->found[index],
                    status == KILN_OK && !kilni_store_has_kind_of_key(entry) ? KILN_E_CORRUPT
                                                                             : status,
                    entry);
    }
}

/* Copies the items that wait. First asks the destination for all of them, and then the source for
 * those that the destination does not have. */
static void copy_waiting(copying *work)
{
    size_t missing = 0;
    kilni_store_read_digests(work->into, work->digests, work->waiting, note_found, work);
    for (size_t i = 0; i < work->waiting; i++) {
        if (is_present(work->found[i])) {
            work->report.present++;
        } else {
            work->digests[missing] = work->digests[i];
            work->found[missing++] = work->found[i];
        }
    }
    work->waiting = 0;
    kilni_store_read_digests(work->from, work->digests, missing, take_if_going_on, work);
}

/* Returns true if the destination can be asked for many digests at once, and the source finds
 * entries by their digests. No entry has a digest of zeros. */
static bool is_worth_batches(copying *work)
{
    static const kiln_digest zeros;
    kiln_entry *none = NULL;
    return work->into->ops->read_digests &&
           work->from->ops->read_digest(work->from, &zeros, &none) != KILN_E_UNSUPPORTED;
}

/* A walk may visit an item twice. The second time, the destination is asked again. */
static void add_waiting(copying *work, const kiln_digest *digest)
{
    bool is_known = false;
    for (size_t i = 0; i < work->waiting; i++) {
        is_known |= memcmp(&work->digests[i], digest, sizeof *digest) == 0;
    }
    if (is_known || work->waiting == KILNI_STORE_MANY) {
        copy_waiting(work);
    }
    work->digests[work->waiting++] = *digest;
}

/* ---- the walk ---- */

static int visit(void *user, kiln_item *item)
{
    copying *work = user;
    kiln_item_info info = {.struct_size = sizeof info};
    const kiln_status status = kiln_item_get_info(item, &info);
    if (status != KILN_OK) {
        note_reading(work, status);
    } else if (is_wanted(work, &info)) {
        if (work->has_batches && info.kind != KILN_ENTRY_REQUEST) {
            add_waiting(work, &info.digest);
        } else {
            copy_item(work, item, &info.digest);
        }
    }
    return work->status != KILN_OK;
}

#define KNOWN_FLAGS KILN_COPY_TRUST

static kiln_status read_params(const kiln_copy_params *given, kiln_copy_params *ret_params,
                               kiln_error *error)
{
    *ret_params = (kiln_copy_params){.struct_size = sizeof *ret_params};
    kiln_status status =
        given ? kilni_sized_struct_copy(given, ret_params, sizeof *ret_params) : KILN_OK;
    if (status == KILN_OK && (ret_params->flags & ~(uint32_t)KNOWN_FLAGS)) {
        status = KILN_E_UNSUPPORTED;
    }
    return status == KILN_OK ? KILN_OK
                             : kilni_error_set(error, status, 0, "kiln_copy_params: %s",
                                               kiln_status_text(status));
}

static kiln_status check_stores(const kiln_store *from, const kiln_store *into, uint32_t flags,
                                kiln_error *error)
{
    const bool is_authenticated = !(kilni_store_capabilities(from) & KILNI_STORE_FOREIGN) ||
                                  from->signing_key || kilni_signers_are_required(from->signers);
    if (!is_authenticated && !(flags & KILN_COPY_TRUST)) {
        return kilni_error_set(error, KILN_E_UNAUTHENTICATED, 0,
                               "nothing authenticates the entries to copy: name a key with which "
                               "they are signed, or trust them all (--trust, KILN_COPY_TRUST)");
    }
    if (!(kilni_store_capabilities(into) & KILNI_STORE_WRITABLE)) {
        return kilni_error_set(error, KILN_E_READONLY, 0, "the store to write is read-only");
    }
    return KILN_OK;
}

static kiln_status copy_all(copying *work, kiln_error *error)
{
    work->has_batches = is_worth_batches(work);
    const kiln_status walked = kiln_store_each(work->from, visit, work);
    if (work->status == KILN_OK) {
        copy_waiting(work);
    }
    const bool is_of_source = work->is_of_source || work->status == KILN_OK;
    const kiln_status status = work->status == KILN_OK ? walked : work->status;
    return status == KILN_OK
               ? KILN_OK
               : kilni_error_set(error, status, 0, "the store to %s: %s",
                                 is_of_source ? "read" : "write", kiln_status_text(status));
}

kiln_status kiln_store_copy(kiln_store *from, kiln_store *into, const kiln_copy_params *params,
                            kiln_copy_report *ret_report, kiln_error *error)
{
    if (!from || !into || !ret_report || !kilni_sized_struct_is_valid(ret_report)) {
        return KILN_E_INVALID;
    }
    copying work = {.from = from, .into = into};
    kiln_status status = read_params(params, &work.params, error);
    if (status == KILN_OK) {
        status = check_stores(from, into, work.params.flags, error);
    }
    if (status == KILN_OK) {
        status = copy_all(&work, error);
    }
    kilni_sized_struct_copy_out(ret_report, &work.report, sizeof work.report);
    return status;
}
