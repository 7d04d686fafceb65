/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs and kernels of a device context. Each program is built once, kept in memory while there
 * is room, and found in a store by later processes. Callers that keep binaries themselves use cache
 * blobs. docs/programs.md describes both.
 *
 *     const kiln_program_context_params in = {.struct_size = sizeof in, .ops = ops,
 *                                             .devices = &device, .device_count = 1,
 *                                             .store = store};
 *     kiln_program_context_new(&in, &programs);
 *     const kiln_program_desc_params of = {.struct_size = sizeof of, .form = KILN_SOURCE_TEXT,
 *                                          .code = {source, strlen(source)}};
 *     kiln_program_desc_new(programs, &of, &desc, NULL);
 *     kiln_kernel_desc_new(desc, "blur", &blur);
 *     if (kiln_kernel_get(blur, &kernel, NULL) == KILN_OK) { // for each launch
 *         launch(kiln_kernel_handle(kernel));
 *         kiln_kernel_release(&kernel);
 *     }
 *
 * Release these in this order: descriptions, the context, the device, the store. Threads that share
 * a kernel hold kiln_kernel_lock while they set its arguments and enqueue it.
 *
 * A description contains everything that decides a build. Its inputs are examined and hashed once,
 * when it is made, so a look-up hashes neither code nor names. A program is looked up in memory,
 * then in the store. If neither has it, one thread of one process builds it, and all other threads
 * and processes that ask for it wait. A kernel belongs to its program and is removed from the cache
 * with it. A program or kernel that is held stays valid even if it is removed from the caches.
 *
 * All calls: KILN_E_INVALID means that an argument is NULL although its comment does not allow
 * that, or that a parameter structure has a non-zero field that this version does not know. The
 * call has then changed nothing. Any thread may make any call unless its comment says otherwise.
 * None of these calls reads settings from the environment; kiln/config.h does, for callers that
 * want them.
 *
 * Source: SYCL's kernel and program cache (docs/seeds.md, S1 to S76 and E1 to E22), and for blobs
 * oneDNN's persistent cache, option 2 (P34 to P49).
 */
#ifndef KILN_PROGRAM_H
#define KILN_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>
#include <kiln/device.h>
#include <kiln/key.h>
#include <kiln/status.h>
#include <kiln/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device context of the caller, with its map of programs and its map of kernels. Objects that
 * were made in a context may outlive it and can still be used. Programs and kernels that are held
 * keep their handles and blobs. A kernel that is made after the context was freed belongs to its
 * caller alone, because no map keeps it. The device and its ops must outlive all these objects. */
typedef struct kiln_program_context kiln_program_context;

/* What a program is built from, and for which device. Immutable and reference-counted. A
 * description may outlive its context. It then still returns its key and its blob ID, but obtaining
 * programs and kernels from it fails with KILN_E_INVALID. */
typedef struct kiln_program_desc kiln_program_desc;

/* One hold on a live program. */
typedef struct kiln_program kiln_program;

/* The name of one kernel of a described program, prepared for look-ups. Immutable and
 * reference-counted. */
typedef struct kiln_kernel_desc kiln_kernel_desc;

/* One hold on a live kernel. It keeps the kernel's program alive too. */
typedef struct kiln_kernel kiln_kernel;

/* ---- contexts ---- */

/* Which programs are kept. All other programs are built for each caller. */
typedef enum kiln_program_rules {
    KILN_RULES_ALL = 0,   /* all programs whose inputs are known, including those from source */
    KILN_RULES_IMAGES = 1 /* only device images: neither programs built from source nor programs
                             linked from several others */
} kiln_program_rules;

/* Options as texts for the device's compiler and linker; NULL: none. The structure never gets more
 * members, because other structures contain it. */
typedef struct kiln_build_options {
    const char *compile;
    const char *link;
} kiln_build_options;

/* Selects the store for each request. */
typedef struct kiln_store_source kiln_store_source;

/* How a context is created, and what it may hold. */
typedef struct kiln_program_context_params {
    size_t struct_size;
    const kiln_device_ops *ops; /* not NULL; borrowed */
    void *const *devices;       /* not NULL; the list is copied, the devices are borrowed */
    size_t device_count;        /* at least 1 */

    /* The store on disk. Borrowed: close it after the context was freed. NULL: store_source is
     * used. */
    kiln_store *store;
    /* Selects the store for each request if store is NULL. kiln_persistent_source returns such an
     * object. NULL: programs are kept in memory only. */
    const kiln_store_source *store_source;
    uint32_t rules; /* a kiln_program_rules */

    /* The bounds of the programs map, as in kiln_cache_params. The size of a program is the size of
     * its binary if the device reports that cheaply; otherwise it is the size of its code. */
    uint64_t max_programs; /* 0: 1024; or KILN_UNLIMITED */
    uint64_t max_bytes;    /* 0: 256 MiB; or KILN_UNLIMITED */
    uint32_t policy;       /* a kiln_policy */
    uint32_t flags;        /* KILN_CACHE_… or-ed */
    uint64_t max_kernels;  /* bound of the kernels map; 0: 65,536; or KILN_UNLIMITED */

    /* A program is kept on disk only if its code has at least min_stored_bytes and at most
     * max_stored_bytes; 0 for either: no such limit. */
    uint64_t min_stored_bytes, max_stored_bytes;

    /* Build options from the environment: @replaced takes the place of an image's own options, and
     * @appended follows them. Copied. */
    kiln_build_options replaced, appended;

    /* Name, version and source revision of the library that embeds Kiln. They are part of each key,
     * because they affect what is built from an image. Copied; NULL: none. */
    const char *library;
} kiln_program_context_params;

/* Creates an empty context. Devices that the ops declare interchangeable count as one: a program
 * that was built for the first of them is used for all of them.
 *
 * @params       read during the call
 * @ret_context  [out] to be freed with kiln_program_context_free
 * Returns KILN_OK; KILN_E_INVALID: also if the ops lack a function that kiln/device.h requires;
 * KILN_E_NO_MEMORY; any other error that the identity function of the ops returns. If identity
 * returns KILN_E_UNSUPPORTED, the context is created, but keeps no programs of that device. Blocks:
 * as long as identity does. */
KILN_API kiln_status kiln_program_context_new(const kiln_program_context_params *params,
                                              kiln_program_context **ret_context);

/* Empties both maps, writes queued entries to the store (for at most 60 s), frees the context and
 * sets the pointer to NULL. NULL and a pointer to NULL are allowed. No other thread may be in a
 * call on the context or on an object that was made in it. */
KILN_API void kiln_program_context_free(kiln_program_context **context);

/* Waits until everything that was built is in the store.
 *
 * @timeout_ns  how long to wait
 * Returns KILN_OK; KILN_TIMEOUT; KILN_E_INVALID. Blocks: at most @timeout_ns. */
KILN_API kiln_status kiln_program_context_drain(kiln_program_context *context, uint64_t timeout_ns);

/* Sets the capacity of the programs map. A larger capacity evicts nothing. A smaller one evicts
 * programs, with their kernels, in the order of the policy until the map fits. 0 for either limit
 * empties the map and disables it: each caller then builds for itself, or loads from the store.
 * Nothing on disk changes.
 *
 * @max_bytes    in bytes; or KILN_UNLIMITED
 * @max_entries  the number of programs; or KILN_UNLIMITED
 * Returns KILN_OK; KILN_E_INVALID. Blocks: never. */
KILN_API kiln_status kiln_program_context_set_capacity(kiln_program_context *context,
                                                       uint64_t max_bytes, uint64_t max_entries);

/* Reads the capacity of the programs map.
 *
 * @ret_max_bytes, @ret_max_entries  [out] either may be NULL; both are set to 0 if the map is
 *                                   disabled
 * Returns KILN_OK; KILN_E_INVALID. Blocks: never. */
KILN_API kiln_status kiln_program_context_get_capacity(kiln_program_context *context,
                                                       uint64_t *ret_max_bytes,
                                                       uint64_t *ret_max_entries);

/* Empties both maps. Nothing on disk changes. NULL is ignored. */
KILN_API void kiln_program_context_clear(kiln_program_context *context);

/* Removes all programs of an image that is being unloaded, with their kernels, and returns the
 * number of programs. If programs of the image are being built, they are not kept in memory. Image
 * 0 has no programs. */
KILN_API size_t kiln_program_context_remove_image(kiln_program_context *context, uint64_t image);

/* Read the counters of the programs map, or of the kernels map, as kiln_cache_get_stats does. A
 * program that was removed from its map counts as lingering while one of its kernels is held.
 * Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_program_context_get_program_stats(kiln_program_context *context,
                                                            kiln_cache_stats *ret_stats);
KILN_API kiln_status kiln_program_context_get_kernel_stats(kiln_program_context *context,
                                                           kiln_cache_stats *ret_stats);

/* ---- listeners ---- */

/* What a listener of a map receives. */
typedef struct kiln_program_event {
    size_t struct_size;
    uint32_t kind;   /* KILN_EVENT_… of kiln/cache.h */
    uint32_t reason; /* a kiln_eviction, with KILN_EVENT_EVICTED */
    /* The members below are 0 with KILN_EVENT_CLEARED. What they point to is valid during the call.
     */
    const kiln_key *key; /* the key of the program, or of the kernel's program;
                            kiln_program_desc_key returns an equal key for the program's
                            descriptions */
    const char *name;    /* the name of the kernel, or the name in the program's description, which
                            may be NULL */
    void *handle;        /* the backend's, such as a cl_program or a cl_kernel */
    uint64_t bytes;      /* size of a program; 0 for a kernel */
} kiln_program_event;

/* Called outside all locks, on the thread that caused the event, before that thread's call returns.
 * The listener may call the context. If events happen on several threads, their notices can arrive
 * in a different order. */
typedef void (*kiln_program_listener_fn)(void *user, const kiln_program_event *event);

/* Add a listener to the programs map, or to the kernels map. It receives the events that happen
 * from now on, as with kiln_cache_listen. When a program is removed from its map, its kernels are
 * removed first, with KILN_EVICTED_REMOVED. A use of a kernel can also be reported as a hit of its
 * program. When the context is freed, its listeners receive the evictions, but not
 * KILN_EVENT_CLEARED, and are removed.
 *
 * @events    KILN_EVENT_… or-ed, at least one
 * @listener  called for each such event, from any thread
 * @user      passed to @listener; borrowed until the listener is removed; may be NULL
 * @ret_id    [out] identifies the listener for the calls below that remove one
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Blocks: never. */
KILN_API kiln_status kiln_program_context_listen_programs(kiln_program_context *context,
                                                          uint32_t events,
                                                          kiln_program_listener_fn listener,
                                                          void *user, uint64_t *ret_id);
KILN_API kiln_status kiln_program_context_listen_kernels(kiln_program_context *context,
                                                         uint32_t events,
                                                         kiln_program_listener_fn listener,
                                                         void *user, uint64_t *ret_id);

/* Remove a listener from the programs map, or from the kernels map. When the call returns, the
 * listener is not running on another thread and will not be called again. A call from inside a
 * listener of either map of the context does not wait. In this case, the removed listener is not
 * called again, but it might still be running. An unknown id is ignored, and so is NULL. Blocks:
 * while the listener runs on another thread. */
KILN_API void kiln_program_context_unlisten_programs(kiln_program_context *context, uint64_t id);
KILN_API void kiln_program_context_unlisten_kernels(kiln_program_context *context, uint64_t id);

/* ---- descriptions ---- */

/* The origin of a program, for the rules. */
typedef enum kiln_program_origin {
    KILN_ORIGIN_OF_FORM = 0, /* the form decides: KILN_SOURCE_IL means an image, KILN_SOURCE_TEXT
                                means source */
    /* A device image, for example one that a compiler put into the executable. */
    KILN_ORIGIN_IMAGE = 1,
    KILN_ORIGIN_SOURCE = 2 /* created at run time */
} kiln_program_origin;

/* Everything that decides a build. */
typedef struct kiln_program_desc_params {
    size_t struct_size;

    /* What is built: code, or a link of programs. All of it is copied. */
    uint32_t form;   /* a kiln_source_form; 0 with @linked */
    uint32_t origin; /* a kiln_program_origin */
    kiln_bytes code;
    const kiln_program_desc *const
        *linked; /* the programs to compile, each with its own options, and then to link in this
                    order; all must have the same context and device */
    size_t linked_count;

    /* How it is built. The compiler gets three groups of options in this order: the options of the
     * image, or those with which the environment replaces them; the options that the environment
     * appends; and the options of the caller. The linker gets its options in the same order. A
     * build in one step gets the compiler's options, then the linker's. */
    kiln_build_options image_options, options;
    const kiln_spec_constant *constants; /* in any order, each id once */
    size_t constant_count;

    size_t device;    /* index into the devices of the context */
    uint64_t image;   /* for kiln_program_context_remove_image; 0: none */
    const char *name; /* for messages; NULL: none */
} kiln_program_desc_params;

/* Makes a description: examines everything that decides the build, even files that the source
 * includes, and makes the key. Later changes of these inputs are not noticed. However, if they have
 * changed when the program is built, only the caller that built it gets the result.
 *
 * @params    read during the call
 * @ret_desc  [out] one reference, to be released with kiln_program_desc_release
 * @error     may be NULL
 * Returns KILN_OK, even if the inputs of the build are unknown: the program is then not cached;
 * KILN_E_INVALID; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY; any other error that the ops' describe or
 * revision returns. Blocks: on reading files. */
KILN_API kiln_status kiln_program_desc_new(kiln_program_context *context,
                                           const kiln_program_desc_params *params,
                                           kiln_program_desc **ret_desc, kiln_error *error);

/* Adds a reference and returns its argument. NULL is allowed. */
KILN_API kiln_program_desc *kiln_program_desc_retain(const kiln_program_desc *desc);

/* Releases a reference and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_program_desc_release(kiln_program_desc **desc);

/* Returns the key under which a store has the program. `kiln why` compares such keys. The key is
 * valid as long as @desc is. NULL: the inputs of the build are unknown, or @desc is NULL. */
KILN_API const kiln_key *kiln_program_desc_key(const kiln_program_desc *desc);

/* Why a program is not kept. */
typedef enum kiln_uncached {
    KILN_UNCACHED_NOT = 0,     /* it is kept */
    KILN_UNCACHED_SOURCE = 1,  /* KILN_RULES_IMAGES: built from source */
    KILN_UNCACHED_LINKED = 2,  /* KILN_RULES_IMAGES: linked from several programs */
    KILN_UNCACHED_INTEROP = 3, /* made from a handle of the user (kiln_program_adopt) */
    KILN_UNCACHED_DEVICE = 4,  /* the inputs of the device's builds are unknown */
    KILN_UNCACHED_INPUTS = 5,  /* the inputs of this program's build are unknown */
    KILN_UNCACHED_OFF = 6,     /* the map is disabled; or there is no store, or it is read-only */
    KILN_UNCACHED_SIZE = 7,    /* its code is smaller than min_stored_bytes or larger than
                                  max_stored_bytes */
    KILN_UNCACHED_CAPTURE = 8  /* the device gives no binaries, or only at a cost that Kiln does not
                                  impose on the application, as with PoCL: see kiln/opencl.h */
} kiln_uncached;

/* Returns "kept", "built from source", …; NULL for an unknown value. The text is static. */
KILN_API const char *kiln_uncached_text(uint32_t uncached);

/* Says whether a program is kept, and if not, why. */
typedef struct kiln_program_caching {
    size_t struct_size; /* set by the caller */
    uint32_t memory;    /* a kiln_uncached, for the maps; a kernel is kept if its program is kept */
    uint32_t store;     /* a kiln_uncached, for the disk */
    char text[240];     /* for messages: the first reason, with its cause; "" if the program is kept
                           in memory and on disk */
} kiln_program_caching;

/* Reports whether a program is cached with the current settings, and if not, why. Entries that a
 * store already has are found even if the store is read-only or the device gives no binaries.
 *
 * @ret_caching  [in, out] the caller sets its struct_size
 * Returns KILN_OK; KILN_E_INVALID. Blocks: on opening the persistent cache of the process, if the
 * context uses it and it isn't open. */
KILN_API kiln_status kiln_program_desc_get_caching(const kiln_program_desc *desc,
                                                   kiln_program_caching *ret_caching);

/* ---- programs ---- */

/* Where a program was obtained from. */
typedef enum kiln_program_from {
    KILN_PROGRAM_FROM_MEMORY = 1,
    KILN_PROGRAM_FROM_STORE = 2,
    KILN_PROGRAM_FROM_BUILD = 3,
    /* It was built for this caller alone: because of the rules, because the map is disabled or
     * admits nothing more, or because the inputs changed during the build. */
    KILN_PROGRAM_FROM_PRIVATE_BUILD = 4,
    KILN_PROGRAM_FROM_BLOB = 5
} kiln_program_from;

/* How a program was obtained. */
typedef struct kiln_program_result {
    size_t struct_size; /* set by the caller */
    uint32_t from;      /* a kiln_program_from */
    int32_t waited;     /* 1: another thread or process built it meanwhile; otherwise 0 */
    /* How long it took to build the program, to load it from the store, and to wait for another
     * builder. Each is 0 if this step did not happen. All are 0 for a program that is not cached
     * because of the rules or unknown inputs. */
    uint64_t build_ns, load_ns, wait_ns;
    kiln_status store; /* why the store did not return the program: KILN_MISS, KILN_E_CORRUPT, …;
                          KILN_OK if it did, or if it was not asked */
} kiln_program_result;

/* Finds a program in memory or in the store, or else builds it. If the device is out of resources,
 * or host or device memory is exhausted, the call evicts all programs and kernels of this context
 * that are not in use, waits until other threads have freed the objects that they evicted, and
 * tries the operation once more. A program is in use as long as one of its kernels is. A failure of
 * the store counts as a miss.
 *
 * @ret_program  [out] one hold, to be released with kiln_program_release
 * @ret_result   [in, out] the caller sets its struct_size; may be NULL
 * @error        may be NULL; for KILN_E_BUILD it receives the beginning of the build log
 * Returns KILN_OK; KILN_E_BUILD; KILN_E_UNSUPPORTED: the device can't link, or does not accept code
 * of this form; KILN_E_INVALID; KILN_E_RESOURCES, KILN_E_NO_MEMORY and other errors of the device;
 * KILN_E_CYCLE: the build would wait for itself. If the build fails with KILN_E_BUILD,
 * KILN_E_UNSUPPORTED or KILN_E_INVALID, the builder and all waiters get that error, and with
 * KILN_CACHE_RETAIN_FAILURES all later callers do too. If it fails with a different error, or if
 * the inputs changed during the failed build, only the builder gets the error. One of the waiters
 * then tries once more. If that fails too, all waiters get the second error. Blocks: on the build,
 * by this or another caller; never if the program is in memory. */
KILN_API kiln_status kiln_program_get(const kiln_program_desc *desc, kiln_program **ret_program,
                                      kiln_program_result *ret_result, kiln_error *error);

/* Options of kiln_program_obtain. */
typedef struct kiln_program_params {
    size_t struct_size;
    /* How long to wait for a build by another caller or process. 0 or KILN_UNLIMITED: the caller
     * sets no limit. KILN_NO_WAIT: do not wait. */
    uint64_t wait_ns;
} kiln_program_params;

/* Does the same as kiln_program_get, with options.
 *
 * @params  read during the call; NULL: all defaults
 * Returns what kiln_program_get returns; KILN_TIMEOUT: another thread is still building the
 * program. If another process is still building the program, this process builds it too. Blocks: on
 * loading or building the program here; on builds by others, for at most @params->wait_ns. */
KILN_API kiln_status kiln_program_obtain(const kiln_program_desc *desc,
                                         const kiln_program_params *params,
                                         kiln_program **ret_program,
                                         kiln_program_result *ret_result, kiln_error *error);

/* Loads the programs of several descriptions, if a store has them, so that later calls find them in
 * memory. If the store is on a server, the keys that no local store has are asked for together, up
 * to 64 in one round trip (kiln_store_get_many). Takes no leases and builds nothing: a program that
 * was not found is looked up again, leased and built when it is requested.
 *
 * A program that was loaded counts as a hit in the store. A program that memory has, that another
 * thread is building, or that is never kept in a store is skipped.
 *
 * @descs       descriptions of one context; none is NULL; a description may occur more than once
 * @ret_loaded  [out] how many programs this call has loaded; may be NULL
 * Returns KILN_OK, even if nothing was found; KILN_E_INVALID: nothing was looked up;
 * KILN_E_NO_MEMORY: some programs were not looked up. Programs can also be skipped for lack of
 * memory if this returns KILN_OK. Blocks: on the store and on the ops' load function; other threads
 * that request the same programs wait meanwhile. */
KILN_API kiln_status kiln_program_prefetch(const kiln_program_desc *const *descs, size_t count,
                                           size_t *ret_loaded);

/* Looks for a program in memory, and never builds, loads or waits.
 *
 * @ret_program  [out] with KILN_OK one hold, to be released with kiln_program_release
 * @ret_pending  [out] with KILN_BUSY the pending answer (kiln/cache.h): pass it to
 *               kiln_program_wait, and in the end to kiln_pending_drop
 * Returns KILN_OK; KILN_BUSY: another thread is building it; KILN_MISS: kiln_program_get would
 * build or load it; the failure that is kept in memory for this program; KILN_E_INVALID;
 * KILN_E_NO_MEMORY. Blocks: never. */
KILN_API kiln_status kiln_program_find(const kiln_program_desc *desc, kiln_program **ret_program,
                                       kiln_pending **ret_pending, kiln_error *error);

/* Waits for a pending program.
 *
 * @pending      as returned by kiln_program_find
 * @wait_ns      as in kiln_reserve_params
 * @ret_program  [out] one hold, to be released with kiln_program_release
 * @error        may be NULL
 * Returns KILN_OK; KILN_TIMEOUT; KILN_MISS: the build ended without a program, or its program is
 * not shared, so kiln_program_get would build; KILN_E_CYCLE; the failure of the build;
 * KILN_E_INVALID; KILN_E_NO_MEMORY. Blocks: at most @wait_ns. */
KILN_API kiln_status kiln_program_wait(kiln_pending *pending, uint64_t wait_ns,
                                       kiln_program **ret_program, kiln_error *error);

/* Takes over a program that the user has built, and returns a hold on it. Kernels can be obtained
 * from this hold as from any other. The program is not cached.
 *
 * @device       index into the devices of the context
 * @handle       the backend's handle; the ops' release_program releases it when the last hold is
 *               released
 * @ret_program  [out] one hold, to be released with kiln_program_release
 * Returns KILN_OK; KILN_E_INVALID, KILN_E_NO_MEMORY: the handle still belongs to the caller.
 * Blocks: never. */
KILN_API kiln_status kiln_program_adopt(kiln_program_context *context, size_t device, void *handle,
                                        kiln_program **ret_program);

/* Returns the backend's handle, such as a cl_program; NULL for NULL. The handle is valid as long as
 * the hold is. */
KILN_API void *kiln_program_handle(const kiln_program *program);

/* Does the same as kiln_program_desc_get_caching, for the description that the program was made
 * from. */
KILN_API kiln_status kiln_program_get_caching(const kiln_program *program,
                                              kiln_program_caching *ret_caching);

/* Adds a hold and returns its argument. NULL is allowed. */
KILN_API kiln_program *kiln_program_retain(kiln_program *program);

/* Releases a hold and sets the pointer to NULL. NULL and a pointer to NULL are allowed. Blocks: if
 * this is the last hold, as long as the ops' release_program does. */
KILN_API void kiln_program_release(kiln_program **program);

/* ---- kernels ---- */

/* Prepares the name of a kernel for look-ups.
 *
 * @desc      the description of the kernel's program; retained
 * @name      copied; not empty
 * @ret_desc  [out] one reference, to be released with kiln_kernel_desc_release
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Blocks: never. */
KILN_API kiln_status kiln_kernel_desc_new(const kiln_program_desc *desc, const char *name,
                                          kiln_kernel_desc **ret_desc);

/* Adds a reference and returns its argument. NULL is allowed. */
KILN_API kiln_kernel_desc *kiln_kernel_desc_retain(const kiln_kernel_desc *desc);

/* Releases a reference and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_kernel_desc_release(kiln_kernel_desc **desc);

/* Finds a kernel, or makes it. If its program is not in memory, the call first obtains the program,
 * as kiln_program_get does. If the kernel is in memory, the call hashes no text, takes no lock and
 * allocates nothing. While a kernel is kept, all callers hold the same kernel and share its
 * arguments: see kiln_kernel_lock.
 *
 * @ret_kernel  [out] one hold, to be released with kiln_kernel_release
 * @error       may be NULL
 * Returns what kiln_program_get returns; KILN_MISS: the program has no kernel of that name. Blocks:
 * as kiln_program_get does. */
KILN_API kiln_status kiln_kernel_get(const kiln_kernel_desc *desc, kiln_kernel **ret_kernel,
                                     kiln_error *error);

/* Finds or makes a kernel of a program that is held. If the program is neither cached nor made from
 * a description, the kernel is made for this caller alone; otherwise it is shared, as with
 * kiln_kernel_get. A look-up by name costs more than a look-up by description.
 *
 * @name        not empty
 * @device      the device that the kernel will run on, as an index into the devices of the context
 * @ret_kernel  [out] one hold, to be released with kiln_kernel_release
 * @error       may be NULL
 * Returns what kiln_kernel_get returns. Blocks: as long as the ops' kernel function does. */
KILN_API kiln_status kiln_program_get_kernel(kiln_program *program, const char *name, size_t device,
                                             kiln_kernel **ret_kernel, kiln_error *error);

/* Enters a read section on a context's kernels, as kiln_section_enter does. Kernels that are peeked
 * at inside it stay valid until kiln_section_leave. Neither argument may be NULL; unchecked, for
 * speed. */
KILN_API void kiln_kernel_section_enter(kiln_program_context *context, kiln_section *ret_section);

/* Returns the backend's handle of a kernel that is in memory, or NULL. Builds nothing, waits for
 * nothing, and takes no hold. Counts as a use of the program too. Only one thread at a time may use
 * a kernel that was peeked at, unless the device lets threads share kernels. kiln_kernel_lock can't
 * be used for such a kernel, because the lock needs a hold (see kiln_kernel_get). Neither argument
 * may be NULL; unchecked, for speed. */
KILN_API void *kiln_kernel_peek(const kiln_section *section, const kiln_kernel_desc *desc);

/* Returns the backend's handle, such as a cl_kernel; NULL for NULL. The handle is valid as long as
 * the hold is. */
KILN_API void *kiln_kernel_handle(const kiln_kernel *kernel);

/* Returns the backend's handle of the kernel's program; NULL for NULL. The handle is valid as long
 * as the hold on the kernel is. */
KILN_API void *kiln_kernel_program_handle(const kiln_kernel *kernel);

/* Lock and unlock a shared kernel, for threads that set its arguments and enqueue it. A thread must
 * not lock the same kernel twice. NULL is ignored. Blocks: until other threads have unlocked the
 * kernel. */
KILN_API void kiln_kernel_lock(kiln_kernel *kernel);
KILN_API void kiln_kernel_unlock(kiln_kernel *kernel);

/* Adds a hold and returns its argument. NULL is allowed. */
KILN_API kiln_kernel *kiln_kernel_retain(kiln_kernel *kernel);

/* Releases a hold and sets the pointer to NULL. NULL and a pointer to NULL are allowed. Blocks: if
 * this is the last hold, as long as the ops' release functions do. */
KILN_API void kiln_kernel_release(kiln_kernel **kernel);

/* ---- cache blobs ---- */

/* Returns the ID of a description's blob. The ID covers everything that decides the build, and
 * Kiln's own version and source revision. Equal descriptions have equal IDs in every process. An ID
 * consists of some thousands of bytes. Their meaning is not documented. For a file name, make a key
 * with the ID as its only part, and use the digest of that key.
 *
 * @ret_size  [out] in bytes; 0 if there are no blobs: the device gives no binaries, or the inputs
 *            of the build are unknown
 * @ret_id    [out] may be NULL; owned by @desc and valid as long as it is; NULL if the size is 0
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY; KILN_E_TOO_LARGE: the description has nearly
 * as many parts as a key may have. Blocks: never. */
KILN_API kiln_status kiln_program_desc_cache_blob_id(const kiln_program_desc *desc,
                                                     size_t *ret_size, const uint8_t **ret_id);

/* Copies a program's blob: a binary from which the same description makes the program without
 * building it. The blob is obtained from the device on the first call, and kept with the program,
 * so later calls return equal bytes. From then on, the size of the blob counts as part of the
 * program's size. If several threads make the first call at the same time, each might call the
 * device, but all get the same bytes.
 *
 * @size  [in] the size of @blob in bytes; [out] the size of the program's blob; 0 if that blob is
 *        empty, which is valid: a blob would not make this program cheaper to build
 * @blob  [out] NULL: the caller needs only the size
 * Returns KILN_OK; KILN_E_TOO_LARGE: @blob is too small, and was not written; KILN_E_UNSUPPORTED,
 * with size 0: the program has no blob, for a reason that kiln_program_desc_cache_blob_id names; or
 * its binary exceeds a limit of the device or of an entry; or the inputs changed during the build,
 * so that the program does not correspond to the ID; KILN_E_INVALID; KILN_E_NO_MEMORY; what the
 * ops' capture returns. Blocks: as capture does, with some devices for seconds. */
KILN_API kiln_status kiln_program_get_cache_blob(const kiln_program *program, size_t *size,
                                                 uint8_t *blob);

/* Makes a program from its blob, and keeps it in memory like one that was built. If the program is
 * already in memory, the call returns it and does not read the blob. If a failure of its build is
 * kept in memory, the call discards that failure. The call does not use the store.
 *
 * @size         in bytes; 0: an empty blob, with which the call does the same as kiln_program_get
 * @blob         read during the call; nothing in it is trusted
 * @ret_program  [out] one hold, to be released with kiln_program_release
 * @ret_result   [in, out] the caller sets its struct_size; may be NULL
 * @error        may be NULL
 * Returns what kiln_program_get returns; KILN_E_UNSUPPORTED: the program has no blobs, as
 * kiln_program_desc_cache_blob_id says; KILN_E_CORRUPT: @blob is not a blob, or is damaged;
 * KILN_E_VERSION: it has a newer format; KILN_E_REFUSED: the blob belongs to a different
 * description, device, driver or version, and @error names the part that differs, or the device
 * does not accept the blob, or the inputs of the build have changed. If the blob was refused,
 * nothing was built. Blocks: on the device's load, or on a build by another caller. */
KILN_API kiln_status kiln_program_create_from_cache_blob(const kiln_program_desc *desc, size_t size,
                                                         const uint8_t *blob,
                                                         kiln_program **ret_program,
                                                         kiln_program_result *ret_result,
                                                         kiln_error *error);

#ifdef __cplusplus
}
#endif

#endif
