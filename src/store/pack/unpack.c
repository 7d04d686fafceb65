/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/pack.h>

#include "base/error.h"
#include "base/params.h"
#include "entry/entry.h"
#include "store/pack/pack.h"

#define KNOWN_FLAGS KILN_UNPACK_TRUST

typedef struct unpacking {
    kiln_store *into;
    kiln_unpack_report report;
    kiln_status status; /* KILN_OK, or KILN_E_NO_MEMORY, which ends the walk */
} unpacking;

static bool has_sound(kiln_store *store, const kiln_key *key)
{
    kiln_entry *entry = NULL;
    kiln_status status = kiln_store_get(store, key, &entry);
    kiln_entry_release(&entry);
    return status == KILN_OK;
}

static kiln_status put_plain(kiln_store *store, const kiln_entry *entry)
{
    kiln_entry *plain = NULL;
    kiln_status status = kilni_entry_with_key(entry, NULL, &plain);
    if (status == KILN_OK) {
        status = kiln_store_put(store, plain);
    }
    kiln_entry_release(&plain);
    return status;
}

static void take(unpacking *work, const kiln_entry *entry)
{
    /* A sound pack has no requests: a program that serves requests would run whatever the pack asks
     * for. */
    if (kilni_store_is_request(kiln_entry_key(entry))) {
        work->report.refused++;
        return;
    }
    if (has_sound(work->into, kiln_entry_key(entry))) {
        work->report.present++;
        return;
    }
    kiln_status status = put_plain(work->into, entry);
    work->report.taken += status == KILN_OK;
    work->report.refused += status != KILN_OK;
    if (status == KILN_E_NO_MEMORY) {
        work->status = status;
    }
}

static int visit(void *user, kiln_item *item)
{
    unpacking *work = user;
    kiln_entry *entry = NULL;
    kiln_status status = kiln_item_read(item, &entry);
    if (status == KILN_OK) {
        take(work, entry);
    } else if (status == KILN_E_NO_MEMORY) {
        work->status = status;
    } else if (status == KILN_E_UNAUTHENTICATED) {
        work->report.unauthenticated++;
    } else {
        work->report.damaged++;
    }
    kiln_entry_release(&entry);
    return work->status != KILN_OK;
}

static kiln_status unpack_all(const char *path, const char *key_file, unpacking *work,
                              kiln_error *error)
{
    kiln_store *pack = NULL;
    /* An entry that the store would not accept is not read; with a key file, neither is one that is
     * not signed with that key. */
    const kilni_store_options options = {.flags = KILN_STORE_READONLY,
                                         .max_entry_bytes = work->into->options.max_entry_bytes,
                                         .key_file = key_file};
    kiln_status status = kilni_store_open_with(&kilni_pack_engine, path, &options, &pack, error);
    if (status != KILN_OK) {
        return status;
    }
    status = kiln_store_each(pack, visit, work);
    kiln_store_close(&pack);
    if (work->status != KILN_OK) {
        status = work->status;
    }
    return status == KILN_OK
               ? KILN_OK
               : kilni_error_set(error, status, 0, "%s: %s", path, kiln_status_text(status));
}

static kiln_status read_params(const kiln_unpack_params *given, kiln_unpack_params *ret_params,
                               kiln_error *error)
{
    kiln_status status = kilni_params_copy(given, ret_params, sizeof *ret_params);
    if (status == KILN_OK && (ret_params->flags & ~(uint32_t)KNOWN_FLAGS)) {
        status = KILN_E_UNSUPPORTED;
    }
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "kiln_unpack_params: %s",
                               kiln_status_text(status));
    }
    if (!ret_params->key_file && !(ret_params->flags & KILN_UNPACK_TRUST)) {
        return kilni_error_set(error, KILN_E_UNAUTHENTICATED, 0,
                               "neither a key file nor trust in the pack was given");
    }
    return KILN_OK;
}

kiln_status kiln_pack_unpack(const char *path, const kiln_unpack_params *params, kiln_store *into,
                             kiln_unpack_report *ret_report, kiln_error *error)
{
    kiln_unpack_params wanted;
    if (!path || !params || !into || !ret_report || !kilni_params_have_size(ret_report)) {
        return KILN_E_INVALID;
    }
    kiln_status status = read_params(params, &wanted, error);
    if (status == KILN_OK && !(kilni_store_capabilities(into) & KILNI_STORE_WRITABLE)) {
        status = kilni_error_set(error, KILN_E_READONLY, 0, "the store is read-only");
    }
    if (status != KILN_OK) {
        return status;
    }
    unpacking work = {.into = into};
    status = unpack_all(path, wanted.key_file, &work, error);
    if (status == KILN_OK || status == KILN_E_CORRUPT) {
        kilni_params_copy_out(ret_report, &work.report, sizeof work.report);
    }
    return status;
}
