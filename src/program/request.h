/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a request: memory, store, lease, build, publish. Only this file knows their order.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>
#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/store.h>

#include "store/writer.h"

/* What the requests of one owner share. All of it is borrowed; the owner keeps it alive until its
 * last request has ended. */
typedef struct kilni_request_context {
    kiln_cache *memory;   /* has entries or programs, depending on the ending */
    kiln_store *store;    /* NULL: memory only */
    kilni_writer *writer; /* writes and counts; not NULL */
} kilni_request_context;

/* What memory holds, and therefore how a request ends. */
typedef enum kilni_ending {
    /* Each caller gets a separate program, made from shared bytes: for layers, whose applications
     * can detect shared programs. Memory holds kiln_entry. */
    KILNI_KEEP_ENTRIES = 1,
    /* All callers share one live program: for users of the library. Memory holds the program. */
    KILNI_KEEP_PROGRAM = 2
} kilni_ending;

/* What a request does on the device. @user is that of the request. */
typedef struct kilni_request_ops {
    /* Makes the live program from verified entries, one for each key. KILN_E_REFUSED: the device
     * does not accept them. KILN_MISS: they are sound, but their inputs have changed; the result of
     * the build will replace them. */
    kiln_status (*load)(void *user, const kiln_entry *const *entries);

    /* Builds for all keys at once. KILN_E_BUILD: the source is wrong, and @error has the text;
     * KILN_E_UNSUPPORTED: the build continues asynchronously, so its result can't be kept; any
     * other error counts as transient. */
    kiln_status (*build)(void *user, kiln_error *error);

    /* Makes the entry of one key from the built program. @replaced: the last entry for which load
     * returned KILN_MISS; NULL: none. NULL: captures are too expensive here, or impossible. A
     * failure means that the result can't be kept. */
    kiln_status (*capture)(void *user, size_t index, uint64_t build_ns, const kiln_entry *replaced,
                           kiln_entry **ret_entry);

    /* With KILNI_KEEP_PROGRAM: whether the key still describes the inputs, asked after the build,
     * also after a failure that is the source's fault. Any failure of this function makes the
     * result this caller's alone: a private build, or a failure that other callers do not get.
     * NULL: no need to ask. */
    kiln_status (*check_key)(void *user);

    /* With KILNI_KEEP_PROGRAM: transfers the program that load or build made, and its size, to
     * memory, which will destroy it. */
    void *(*take_program)(void *user, uint64_t *ret_bytes);
} kilni_request_ops;

/* A build for more devices is not looked up in the cache. */
#define KILNI_REQUEST_KEYS_MAX 64u

typedef struct kilni_request {
    kilni_ending ending;
    const kiln_key *const *keys; /* one for each device; may contain equal ones */
    size_t key_count;            /* 1 to KILNI_REQUEST_KEYS_MAX; 1 with KILNI_KEEP_PROGRAM */
    const kiln_key *memory_key; /* with KILNI_KEEP_PROGRAM: the key in memory, if devices that share
                                   entries don't share programs; NULL: the same */
    uint64_t group;             /* of the object in memory, for kiln_cache_remove_group; 0: none */
    const kilni_request_ops *ops;
    void *user;
    int is_alone; /* no thread may wait for this build, because it runs code of the application,
                     which may itself wait for anything. KILNI_KEEP_ENTRIES only */
} kilni_request;

typedef enum kilni_source {
    KILNI_FROM_MEMORY = 1,
    KILNI_FROM_STORE = 2,
    KILNI_FROM_BUILD = 3,
    KILNI_FROM_PRIVATE_BUILD = 4 /* built for this caller alone; not shared */
} kilni_source;

typedef struct kilni_request_result {
    kilni_source source;
    uint64_t load_ns, build_ns, wait_ns;
    int waited; /* for a build by another caller, in this process or a different one */
    kiln_status
        store; /* why the store did not have it: KILN_MISS, KILN_E_CORRUPT, KILN_E_UNAUTHENTICATED,
                  KILN_E_VERSION, KILN_E_REFUSED, …; KILN_OK if it had it or was not asked */
    kiln_status kept; /* KILN_OK: the result was queued for the store, or the store has it;
                         otherwise why not */
    kiln_pin *pin;    /* with KILNI_KEEP_PROGRAM: to be released by the caller */
} kilni_request_result;

/* Obtains one program for its keys: from memory, from the store, or by a build, at most once in all
 * processes that share the store.
 *
 * @ret_result  [out] also written if a build fails: source then says where it was built
 * @error       may be NULL; receives the text of a failed build
 * Returns KILN_OK; KILN_E_BUILD and whatever else ops->build returns; KILN_E_INVALID; KILN_E_CYCLE.
 * A store that fails is a miss. If an op throws or ends its thread, a waiting thread builds. If
 * bookkeeping runs out of memory, the program is built without it. Threads: any. Blocks: on the
 * device, on the store, and on builds by other callers (at most 10 minutes for those in other
 * processes). */
kiln_status kilni_request_run(const kilni_request_context *context, const kilni_request *request,
                              kilni_request_result *ret_result, kiln_error *error);

/* Asks memory for a key: the first step of a request, for callers that go no further.
 *
 * @result  [in, out] notes whether a build by another caller was waited for, and adds the time
 * Returns as kiln_cache_reserve. Blocks: on a build by another caller. */
kiln_status kilni_request_reserve(kiln_cache *memory, const kiln_key *key, uint64_t group,
                                  kiln_reservation *ret_reservation, kilni_request_result *result,
                                  kiln_error *error);

/* The destroy function of a memory that holds entries. */
void kilni_request_destroy_entry(void *user, void *entry);
