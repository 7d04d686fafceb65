/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a request: memory, store, lease, build, publish. Only request.c knows their order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>
#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/store.h>

#include "store/writer.h"

/* The objects that all requests of one owner share. They are borrowed. The owner keeps them alive
 * until its last request has ended. */
typedef struct kilni_request_context {
    kiln_cache *memory;   /* has entries or programs, depending on the ending */
    kiln_store *store;    /* NULL: memory only */
    kilni_writer *writer; /* writes and counts; not NULL */
} kilni_request_context;

/* This says what memory holds, and therefore how a request ends. */
typedef enum kilni_ending {
    /* For layers. Their applications can detect shared programs, so each caller gets a separate
     * program, made from shared bytes. Memory holds objects of type kiln_entry. */
    KILNI_KEEP_ENTRIES = 1,
    /* For users of the library. All callers share one live program, and memory holds it. */
    KILNI_KEEP_PROGRAM = 2
} kilni_ending;

/* The operations of a request on the device. @user is the user pointer of the request. */
typedef struct kilni_request_ops {
    /* Makes the live program from verified entries, one for each key. Returns KILN_E_REFUSED if the
     * device does not accept the entries. Returns KILN_MISS if the entries are sound, but their
     * inputs have changed. The result of the build will then replace them. */
    kiln_status (*load)(void *user, const kiln_entry *const *entries);

    /* Builds once, for all keys. Returns KILN_E_BUILD if the source is wrong; @error then has the
     * text. Returns KILN_E_UNSUPPORTED if the build continues asynchronously, so that its result
     * can't be kept. Other errors, except KILN_E_INVALID, are assumed to be transient
     * (kilni_request_is_answer). */
    kiln_status (*build)(void *user, kiln_error *error);

    /* Makes the entry of one key from the built program. @replaced is the last entry for which load
     * returned KILN_MISS. It is NULL if there is no such entry, or if that entry's results must not
     * be kept (kilni_store_may_merge). If the function fails, the result can't be kept. The member
     * is NULL if captures are too expensive or impossible. */
    kiln_status (*capture)(void *user, size_t index, uint64_t build_ns, const kiln_entry *replaced,
                           kiln_entry **ret_entry);

    /* Used with KILNI_KEEP_PROGRAM. After the build, checks that the key still describes the
     * inputs. This check is also made if the build failed because of the source. If the check
     * fails, the result concerns this caller alone: a program is a private build, and other callers
     * do not get a failure. The member is NULL if no check is needed. */
    kiln_status (*check_key)(void *user);

    /* Used with KILNI_KEEP_PROGRAM. Returns the program that load or build made, and the program's
     * size. Memory takes over the program, and will destroy it. */
    void *(*take_program)(void *user, uint64_t *ret_bytes);
} kilni_request_ops;

/* A build for more devices than this bypasses the cache. */
#define KILNI_REQUEST_KEYS_MAX 64u

typedef struct kilni_request {
    kilni_ending ending;
    const kiln_key *const *keys; /* one for each device; keys may be equal */
    size_t key_count;            /* 1 to KILNI_REQUEST_KEYS_MAX; 1 with KILNI_KEEP_PROGRAM */
    const kiln_key *memory_key;  /* with KILNI_KEEP_PROGRAM: the key in memory, if it differs from
                                    the key in stores; NULL: it does not differ */
    uint64_t group;              /* of the object in memory, for kiln_cache_remove_group; 0: none */
    uint64_t wait_ns; /* how long to wait for builds by other callers, as in kiln_reserve_params.
                         After that time, a request with KILNI_KEEP_PROGRAM that waits for another
                         thread ends with KILN_TIMEOUT; any other request builds for itself */
    const kilni_request_ops *ops;
    void *user;
    int is_alone; /* no thread is allowed to wait for this build, because it runs code of the
                     application, which might itself wait for another thread. KILNI_KEEP_ENTRIES
                     only */
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
    int waited;        /* for a build by another caller, in this process or another */
    kiln_status store; /* why the store did not have the entry: KILN_MISS, KILN_E_CORRUPT,
                          KILN_E_UNAUTHENTICATED, KILN_E_VERSION, KILN_E_REFUSED, …; KILN_OK if the
                          store had the entry or was not asked */
    kiln_status kept;  /* KILN_OK: the result was queued for the store, or the store has it, or
                          there is no store; otherwise the reason why it is not kept */
    kiln_pin *pin;     /* with KILNI_KEEP_PROGRAM: to be released by the caller */
} kilni_request_result;

/* Obtains one program for the request's keys: from memory, from the store, or by a build. While one
 * caller builds, other callers in all processes that share the store wait.
 *
 * @ret_result  [out] also written if a build fails: the member source then says which kind of build
 *              it was
 * @error       may be NULL; receives the text of a failed build
 * Returns KILN_OK; KILN_E_BUILD and whatever else ops->build returns; KILN_E_INVALID; with
 * KILNI_KEEP_PROGRAM also KILN_TIMEOUT, KILN_E_CYCLE and the failure of another caller's build. A
 * failure of the store is treated as a miss. If an op throws an exception or ends its thread, one
 * waiting thread builds. With KILNI_KEEP_ENTRIES, each waiting thread builds. If there is not
 * enough memory for bookkeeping, the program is built for this caller alone. Threads: any. Blocks:
 * on the device, on the store, and on builds by other callers (in other processes for at most 10
 * minutes). */
kiln_status kilni_request_run(const kilni_request_context *context, const kilni_request *request,
                              kilni_request_result *ret_result, kiln_error *error);

/* Loads the programs of several requests if memory lacks them and the store has them. Looks all of
 * them up together, waits for no other caller, takes no lease and builds nothing. A program that is
 * found counts as a hit in the store; nothing counts as a miss. While the store is asked, other
 * callers of the same programs wait.
 *
 * @requests  with KILNI_KEEP_PROGRAM
 * @count     1 to KILNI_REQUEST_KEYS_MAX
 * Returns how many programs were loaded. If an op throws an exception or ends its thread, the
 * programs that are not yet loaded are left to other callers. */
size_t kilni_request_prefetch(const kilni_request_context *context, const kilni_request *requests,
                              size_t count);

/* Asks memory for a key. This is the first step of a request. The function is for callers that need
 * only this step.
 *
 * @wait_ns  as in kiln_reserve_params
 * @result   [in, out] if the call waited for a build by another caller, sets waited to 1, and adds
 *           the time to wait_ns
 * Returns the statuses of kiln_cache_reserve. Blocks: on a build by another caller. */
kiln_status kilni_request_reserve(kiln_cache *memory, const kiln_key *key, uint64_t group,
                                  uint64_t wait_ns, kiln_reservation *ret_reservation,
                                  kilni_request_result *result, kiln_error *error);

/* Returns true if a build's error is an answer for all callers. Any other error is transient: one
 * of the waiters then tries to build again. */
bool kilni_request_is_answer(kiln_status status);

/* The destroy function of a memory cache that holds entries. */
void kilni_request_destroy_entry(void *user, void *entry);
