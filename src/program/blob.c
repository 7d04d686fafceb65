/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache blobs. A blob is an entry. Its ID is the encoding of the entry's key. The key has the parts
 * that name the version of Kiln, and then the parts of the description's key. Digests replace long
 * parts.
 */
#include <string.h>

#include <kiln/version.h>

#include "base/error.h"
#include "base/revision.h"
#include "base/sized_struct.h"
#include "key/builder.h"
#include "memory/evict.h"
#include "memory/failure.h"
#include "os/clock.h"
#include "program/obtain.h"
#include "program/request.h"

/* Must change whenever existing blobs must no longer be read. */
#define BLOB_FORMAT 1u

/* In the ID, the size and the digest replace each part that is longer than this. */
#define LARGE_PART_BYTES 64u

/* ---- identity ---- */

static bool has_blobs(const kiln_program_desc *desc)
{
    return desc->key && desc->ops->capture_cost != KILN_CAPTURE_NEVER;
}

static kiln_status make_blob_key(const kiln_program_desc *desc, kiln_key **ret_key)
{
    kiln_key_builder *builder = NULL;
    kiln_key *whole = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = kiln_key_builder_add_number(builder, "blob", BLOB_FORMAT);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(builder, "kiln.version", KILN_VERSION);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(builder, "kiln.revision", KILN_REVISION);
    }
    if (status == KILN_OK) {
        status = kilni_key_parts_add(desc->key, builder);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, &whole);
    }
    if (status == KILN_OK) {
        status = kiln_key_strip(whole, LARGE_PART_BYTES, ret_key);
    }
    kiln_key_release(&whole);
    kiln_key_builder_free(&builder);
    return status;
}

kiln_status kilni_desc_blob_key(const kiln_program_desc *desc, const kiln_key **ret_key)
{
    kiln_program_desc *own = (kiln_program_desc *)(uintptr_t)desc;
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&own->lock);
    if (!own->blob_key && has_blobs(own)) {
        status = make_blob_key(own, &own->blob_key);
    }
    if (status == KILN_OK) {
        *ret_key = own->blob_key;
    }
    pthread_mutex_unlock(&own->lock);
    return status;
}

kiln_status kiln_program_desc_cache_blob_id(const kiln_program_desc *desc, size_t *ret_size,
                                            const uint8_t **ret_id)
{
    if (!desc || !ret_size) {
        return KILN_E_INVALID;
    }
    const kiln_key *key = NULL;
    const kiln_status status = kilni_desc_blob_key(desc, &key);
    if (status != KILN_OK) {
        return status;
    }
    size_t size = 0;
    const uint8_t *id = key ? kiln_key_encoding(key, &size) : NULL;
    *ret_size = size;
    if (ret_id) {
        *ret_id = id;
    }
    return KILN_OK;
}

/* ---- the blob of a program ---- */

static kiln_status take_blob(const kilni_live_program *program, kiln_entry **ret_blob)
{
    const kiln_key *key = NULL;
    kiln_status status = kilni_desc_blob_key(program->desc, &key);
    if (status == KILN_OK) {
        status = key ? kilni_live_program_capture(program, key, KILN_ENTRY_BLOB, NULL, ret_blob)
                     : KILN_E_UNSUPPORTED;
    }
    /* KILN_E_TOO_LARGE means that the binary exceeds a limit of the device or of an entry. This
     * status is not returned, because the caller would think that its buffer is too small. */
    return status == KILN_E_TOO_LARGE ? KILN_E_UNSUPPORTED : status;
}

/* Returns the blob that the program keeps, or NULL if it keeps none yet. */
static const kiln_entry *kept_blob(kilni_live_program *program)
{
    pthread_mutex_lock(&program->lock);
    const kiln_entry *blob = program->blob;
    pthread_mutex_unlock(&program->lock);
    return blob;
}

/* Keeps a blob in the program, unless another thread has already kept one. Returns the blob that
 * the program keeps.
 *
 * @taken      one reference, which the program takes over
 * @ret_grown  [out] by how many bytes the program has grown */
static const kiln_entry *keep_blob(kilni_live_program *program, kiln_entry *taken,
                                   uint64_t *ret_grown)
{
    pthread_mutex_lock(&program->lock);
    if (!program->blob) {
        *ret_grown = kiln_entry_encoding(taken).size;
        program->bytes += *ret_grown;
        program->blob = taken;
        taken = NULL;
    }
    const kiln_entry *blob = program->blob;
    pthread_mutex_unlock(&program->lock);
    kiln_entry_release(&taken);
    return blob;
}

/* Returns the bytes of the blob, which are valid as long as the program exists. Returns no bytes if
 * the device returned none. The lock is not held while the device captures the binary, because the
 * capture can take seconds or call Kiln. So if several threads request the blob at the same time,
 * each of them might capture the binary.
 *
 * @ret_grown  [out] by how many bytes the program has grown */
static kiln_status get_blob(kilni_live_program *program, kiln_bytes *ret_blob, uint64_t *ret_grown)
{
    *ret_blob = (kiln_bytes){0};
    *ret_grown = 0;
    if (!program->desc || !has_blobs(program->desc) || !program->matches_key) {
        return KILN_E_UNSUPPORTED;
    }
    const kiln_entry *blob = kept_blob(program);
    if (!blob) {
        kiln_entry *taken = NULL;
        const kiln_status status = take_blob(program, &taken);
        if (status != KILN_OK) {
            return status;
        }
        blob = keep_blob(program, taken, ret_grown);
    }
    if (kiln_entry_payload(blob).size > 0) {
        *ret_blob = kiln_entry_encoding(blob);
    }
    return KILN_OK;
}

kiln_status kiln_program_get_cache_blob(const kiln_program *program, size_t *size, uint8_t *blob)
{
    if (!program || !size) {
        return KILN_E_INVALID;
    }
    kiln_bytes bytes;
    uint64_t grown;
    const kiln_status status = get_blob(kilni_program_live(program), &bytes, &grown);
    if (grown > 0) {
        kilni_object_grow((kilni_object *)(uintptr_t)program, grown);
    }
    const size_t given = *size;
    if (status == KILN_OK || status == KILN_E_UNSUPPORTED) {
        *size = bytes.size;
    }
    if (status != KILN_OK || !blob) {
        return status;
    }
    if (given < bytes.size) {
        return KILN_E_TOO_LARGE;
    }
    if (bytes.size > 0) {
        memcpy(blob, bytes.data, bytes.size);
    }
    return KILN_OK;
}

/* ---- a program from its blob ---- */

static int note_first(void *user, kiln_key_change change, const kiln_key_part *before,
                      const kiln_key_part *after)
{
    (void)change;
    const char **name = user;
    *name = before ? before->name : after->name;
    return 1;
}

static kiln_status check_blob(const kiln_program_desc *desc, const kiln_entry *blob,
                              kiln_error *error)
{
    const kiln_key *wanted = NULL;
    const kiln_status status = kilni_desc_blob_key(desc, &wanted);
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
    }
    if (kiln_entry_kind_of(blob) != KILN_ENTRY_BLOB) {
        return kilni_error_set(error, KILN_E_REFUSED, 0, "the entry is not a cache blob");
    }
    if (!kiln_key_equals(kiln_entry_key(blob), wanted)) {
        const char *part = "";
        kiln_key_difference(kiln_entry_key(blob), wanted, note_first, &part);
        return kilni_error_set(error, KILN_E_REFUSED, 0,
                               "the blob belongs to a different program: they differ in \"%s\"",
                               part);
    }
    return KILN_OK;
}

static void release_entry(void *entry)
{
    kiln_entry_release(entry);
}

static kiln_status load_entry(kilni_live_program *program, kiln_entry *blob, kiln_error *error)
{
    kiln_status status = check_blob(program->desc, blob, error);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_live_program_load(program, blob);
    if (status == KILN_MISS) {
        return kilni_error_set(error, KILN_E_REFUSED, 0, "the blob: its inputs have changed");
    }
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "the blob: %s", kiln_status_text(status));
    }
    program->blob = kiln_entry_retain(blob); /* no other thread has the program yet */
    return KILN_OK;
}

static kiln_status load_blob(kilni_live_program *program, size_t size, const uint8_t *bytes,
                             kiln_error *error)
{
    kiln_entry *blob = NULL;
    kiln_status status = kiln_entry_decode(bytes, size, &blob);
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "the blob: %s", kiln_status_text(status));
    }
    pthread_cleanup_push(release_entry, &blob);
    status = load_entry(program, blob, error);
    pthread_cleanup_pop(1);
    return status;
}

/* Asks memory first, so that only one of several threads loads the blob. If memory returns a
 * failure, a build has failed. This failure does not concern the blob. */
static kiln_status reserve(const kiln_program_desc *desc, kiln_reservation *ret_reservation,
                           kiln_program_result *result, kiln_error *error)
{
    *ret_reservation = (kiln_reservation){.outcome = KILN_BYPASS};
    if (kilni_caching_of_desc(desc) != KILN_UNCACHED_NOT) {
        return KILN_OK;
    }
    kiln_cache *programs = desc->context->programs;
    kilni_request_result asked = {0};
    kiln_error own = {.struct_size = sizeof own};
    kiln_status status = kilni_request_reserve(programs, desc->memory_key, desc->image, 0,
                                               ret_reservation, &asked, &own);
    if (kilni_request_is_answer(status)) {
        kilni_failure_forget(programs, desc->memory_key);
        status = kilni_request_reserve(programs, desc->memory_key, desc->image, 0, ret_reservation,
                                       &asked, &own);
    }
    result->waited = asked.waited;
    result->wait_ns = asked.wait_ns;
    if (kilni_request_is_answer(status)) { /* failed again, in another thread */
        return KILN_OK;
    }
    return status == KILN_OK ? KILN_OK
                             : kilni_error_set(error, status, own.system_error, "%s", own.text);
}

static kiln_status create(kilni_live_program *live, size_t size, const uint8_t *blob,
                          kiln_pin **ret_pin, kiln_program_result *result, kiln_error *error)
{
    kiln_reservation reservation;
    kiln_status status = reserve(live->desc, &reservation, result, error);
    if (status != KILN_OK) {
        return status;
    }
    result->from = KILN_PROGRAM_FROM_MEMORY;
    *ret_pin = reservation.pin;
    if (reservation.outcome == KILN_HIT) {
        return KILN_OK;
    }
    result->from = KILN_PROGRAM_FROM_BLOB;
    const uint64_t start_ns = kilni_clock_ns();
    uint64_t bytes = 0;
    pthread_cleanup_push(kilni_pass_ticket_on, &reservation.ticket);
    status = load_blob(live, size, blob, error);
    if (status == KILN_OK && reservation.ticket) {
        bytes = kilni_live_program_bytes(live);
    }
    pthread_cleanup_pop(0);
    result->load_ns = kilni_clock_ns() - start_ns;
    if (status != KILN_OK) {
        /* Other callers might have a sound blob, or the source. */
        kiln_ticket_abandon(&reservation.ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
    } else if (reservation.ticket) {
        kiln_ticket_fulfil(&reservation.ticket, kilni_live_program_retain(live), bytes, 0, ret_pin);
    }
    return status;
}

static void cancel_arrival(void *arrival)
{
    kilni_arrival_cancel(arrival);
}

kiln_status kiln_program_create_from_cache_blob(const kiln_program_desc *desc, size_t size,
                                                const uint8_t *blob, kiln_program **ret_program,
                                                kiln_program_result *ret_result, kiln_error *error)
{
    if (!desc || !ret_program || (!blob && size > 0) || !kilni_result_is_usable(ret_result)) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the description, the blob or the result pointer is NULL, or the "
                               "result has no struct_size");
    }
    if (size == 0) {
        return kiln_program_get(desc, ret_program, ret_result, error);
    }
    if (kilni_program_context_has_ended(desc->context)) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the description's context has been freed");
    }
    if (!has_blobs(desc)) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "this program has no blobs: %s",
                               desc->key ? "the device gives no binaries" : desc->uncached_text);
    }
    kilni_arrival arrival = {0};
    if (kilni_arrival_begin(desc->context, desc, &arrival) != KILN_OK) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "%s",
                               kiln_status_text(KILN_E_NO_MEMORY));
    }
    kiln_program_result result = {.struct_size = sizeof result};
    kiln_pin *pin = NULL;
    kiln_status status;
    pthread_cleanup_push(cancel_arrival, &arrival);
    status = create(arrival.live, size, blob, &pin, &result, error);
    if (status == KILN_OK) {
        *ret_program = kilni_arrival_end(&arrival, pin);
    }
    pthread_cleanup_pop(status != KILN_OK);
    if (status == KILN_OK && ret_result) {
        kilni_sized_struct_copy_out(ret_result, &result, sizeof result);
    }
    return status;
}
