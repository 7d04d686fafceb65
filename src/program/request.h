/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a request: memory, store, lease, build, publish. The one place that knows their order.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>
#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/store.h>

#include "store/writer.h"

/* What the requests of one owner share. All of it is borrowed: the owner keeps it alive, and ends
 * it after the last request. */
typedef struct kilni_request_context {
    kiln_cache *memory;   /* of what the ending keeps: entries or programs */
    kiln_store *store;    /* NULL: memory only */
    kilni_writer *writer; /* writes and counts; not NULL */
} kilni_request_context;

/* What memory holds, and so how a request ends. */
typedef enum kilni_ending {
    /* Each caller gets a program of its own, made of shared bytes: for layers, whose application
     * can tell shared programs apart. Memory holds kiln_entry. */
    KILNI_KEEP_ENTRIES = 1,
    /* All callers share one live program: for library users. Memory holds the program. */
    KILNI_KEEP_PROGRAM = 2
} kilni_ending;

/* What a request does at the device. @user is the request's. */
typedef struct kilni_request_ops {
    /* Makes the live program of verified entries, one for each key. KILN_E_REFUSED: the device
     * won't have them. KILN_MISS: nothing is wrong with them, but what they were built from is not
     * what it was; what is built instead replaces them. */
    kiln_status (*load)(void *user, const kiln_entry *const *entries);

    /* Builds for all keys at once. KILN_E_BUILD: the source's own fault, with its text in @error;
     * KILN_E_UNSUPPORTED: the build goes on by itself, so its result can't be kept; any other error
     * counts as transient. */
    kiln_status (*build)(void *user, kiln_error *error);

    /* Makes the entry of one key out of what was built. @replaced: what load answered KILN_MISS for
     * last; NULL: nothing. NULL: captures are dear here, or impossible. A failure means that the
     * result can't be kept. */
    kiln_status (*capture)(void *user, size_t index, uint64_t build_ns, const kiln_entry *replaced,
                           kiln_entry **ret_entry);

    /* With KILNI_KEEP_PROGRAM: whether the key still says what it was built from, asked once it is
     * built, or is the source's fault. Any failure means that the result is this caller's alone: a
     * private build, or a failure that says nothing to others. NULL: no need to ask. */
    kiln_status (*check_key)(void *user);

    /* With KILNI_KEEP_PROGRAM: hands over the program that load or build made, and its size; memory
     * destroys it when its time has come. */
    void *(*take_program)(void *user, uint64_t *ret_bytes);
} kilni_request_ops;

/* At most so many devices in one build are looked up; more are built without the cache. */
#define KILNI_REQUEST_KEYS_MAX 64u

typedef struct kilni_request {
    kilni_ending ending;
    const kiln_key *const *keys; /* one for each device; equal ones are allowed */
    size_t key_count;            /* 1 to KILNI_REQUEST_KEYS_MAX; 1 with KILNI_KEEP_PROGRAM */
    const kiln_key *memory_key;  /* with KILNI_KEEP_PROGRAM: its key in memory, where devices that
                                    share entries don't share programs; NULL: the same */
    uint64_t group;              /* of what memory keeps, for kiln_cache_remove_group; 0: none */
    const kilni_request_ops *ops;
    void *user;
    int is_alone; /* nobody may wait for this build: it runs code of the application's, which may
                     itself wait for anything. KILNI_KEEP_ENTRIES only */
} kilni_request;

typedef enum kilni_source {
    KILNI_FROM_MEMORY = 1,
    KILNI_FROM_STORE = 2,
    KILNI_FROM_BUILD = 3,
    KILNI_FROM_PRIVATE_BUILD = 4 /* built for this caller alone: the program is not shared */
} kilni_source;

typedef struct kilni_request_result {
    kilni_source source;
    uint64_t load_ns, build_ns, wait_ns;
    int waited; /* for another's build, in this process or elsewhere */
    kiln_status
        store; /* why the store had nothing: KILN_MISS, KILN_E_CORRUPT, KILN_E_UNAUTHENTICATED,
                  KILN_E_VERSION, KILN_E_REFUSED, …; KILN_OK where it wasn't asked or had it */
    kiln_status kept; /* KILN_OK: what was built was handed on to be stored, or the store has it;
                         else why not */
    kiln_pin *pin;    /* with KILNI_KEEP_PROGRAM: to be released by the caller */
} kilni_request_result;

/* Gets one program for its keys: out of memory, out of the store, or built, at most once in all
 * processes that share the store.
 *
 * @ret_result  [out] also written when a build fails: then source says where it was built
 * @error       may be NULL; the text of a build that failed
 * Returns KILN_OK; KILN_E_BUILD and whatever else ops->build returns; KILN_E_INVALID;
 * KILN_E_CYCLE. A store that fails is a miss. Where an op throws, or ends its thread, who waits
 * builds. Where bookkeeping runs out of memory, the program is
 * built without it. Threads: any. Blocks: on the device, the store, and others' builds (10 minutes
 * at most for those of other processes). */
kiln_status kilni_request_run(const kilni_request_context *context, const kilni_request *request,
                              kilni_request_result *ret_result, kiln_error *error);

/* Asks memory for a key: the first step of the way, for those who go no further.
 *
 * @result  notes whether another's build was waited for, and adds how long
 * Statuses as kiln_cache_reserve. Blocks: on another's build. */
kiln_status kilni_request_reserve(kiln_cache *memory, const kiln_key *key, uint64_t group,
                                  kiln_reservation *ret_reservation, kilni_request_result *result,
                                  kiln_error *error);

/* The destroy function of a memory that holds entries. */
void kilni_request_destroy_entry(void *user, void *entry);
