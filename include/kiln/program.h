/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs and kernels of a device context, each built once, kept while there is room, and found
 * again by the next process; and cache blobs, for those who keep binaries themselves.
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
 * What was made goes in this order: descriptions, the context, the device, the store. Threads that
 * share a kernel hold kiln_kernel_lock while they set its arguments and enqueue it.
 *
 * A description says all that decides a build: it is looked at once, when it is made, so that a
 * look-up hashes neither code nor names. A program is found in memory, else in the store, else
 * built: by one thread of one process, while the others wait. A kernel belongs to its program and
 * leaves the cache with it. What is held lives on whatever happens to the caches.
 *
 * Where NULL stands for something that is needed, and where a parameter structure has something in
 * it that this version does not know, calls return KILN_E_INVALID and change nothing. Threads: any,
 * but where said. The environment is read by kiln/config.h alone, for those who ask it.
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

/* One device context of the user's, with its programs map and its kernels map. What is made in it
 * may outlive it, and all that may be asked of it then as before: programs and kernels that are
 * held have their handles and their blob, and kernels that are made of such a program are their
 * caller's alone, as nothing is kept any more. What made them, the device and its ops, must outlive
 * those. */
typedef struct kiln_program_context kiln_program_context;

/* What a program is built from and for. Immutable and counted. It may outlive its context, and then
 * answers what it was asked before: its key and its blob ID; programs and kernels are not had of it
 * any more (KILN_E_INVALID). */
typedef struct kiln_program_desc kiln_program_desc;

/* One hold on a live program. */
typedef struct kiln_program kiln_program;

/* The name of one kernel of a described program, made ready to be looked up. Immutable and counted.
 */
typedef struct kiln_kernel_desc kiln_kernel_desc;

/* One hold on a live kernel, which keeps its program alive too. */
typedef struct kiln_kernel kiln_kernel;

/* ---- contexts ---- */

/* What is kept, and what is built anew by each who asks. */
typedef enum kiln_program_rules {
    KILN_RULES_ALL = 0,   /* all that is described fully, source too */
    KILN_RULES_IMAGES = 1 /* device images alone: neither what is built from source nor what is
                             linked from several programs */
} kiln_program_rules;

/* As texts that the device's compiler and linker understand; NULL: none. Two texts for good, since
 * other structures hold it as it is. */
typedef struct kiln_build_options {
    const char *compile;
    const char *link;
} kiln_build_options;

/* Says which store to use at the time of each request. */
typedef struct kiln_store_source kiln_store_source;

/* What a context is made of, and what it may hold. */
typedef struct kiln_program_context_params {
    size_t struct_size;
    const kiln_device_ops *ops; /* needed; borrowed */
    void *const *devices;       /* needed; the list is copied, the devices are borrowed */
    size_t device_count;        /* at least 1 */

    /* The cache on disk: borrowed, and closed after the context was freed. NULL: see store_source.
     */
    kiln_store *store;
    /* Names the store for each request if the context has none of its own, as
     * kiln_persistent_source does. NULL: memory only. */
    const kiln_store_source *store_source;
    uint32_t rules; /* kiln_program_rules */

    /* Of the programs map, as in kiln_cache_params. A program counts as many bytes as its binary
     * has where the device tells that cheaply, else as its code. */
    uint64_t max_programs; /* 0: 1024; KILN_UNLIMITED */
    uint64_t max_bytes;    /* 0: 256 MiB; KILN_UNLIMITED */
    uint32_t policy;       /* kiln_policy */
    uint32_t flags;        /* KILN_CACHE_… */
    uint64_t max_kernels;  /* in the kernels map; 0: 65,536; KILN_UNLIMITED */

    /* How large code has to be, and may be, to be kept on disk, in bytes. 0 and 0: any. */
    uint64_t min_stored_bytes, max_stored_bytes;

    /* The environment's part of the build options: @replaced stands in place of an image's own,
     * @appended comes behind them. Copied. */
    kiln_build_options replaced, appended;

    /* Name, version and source revision of the library that embeds Kiln, which decide what it makes
     * of an image: a part of each key. Copied; NULL: none. */
    const char *library;
} kiln_program_context_params;

/* Makes a context with nothing in it. Devices that the ops call interchangeable are one from then
 * on: what is built for the first of them serves all.
 *
 * @params       lives for the call
 * @ret_context  [out] to be given back with kiln_program_context_free
 * Returns KILN_OK; KILN_E_INVALID: also where the ops lack a slot that kiln/device.h requires;
 * KILN_E_NO_MEMORY; what the ops' identity returns, but for KILN_E_UNSUPPORTED, with which the
 * context builds and keeps nothing. Blocks: as identity does. */
KILN_API kiln_status kiln_program_context_new(const kiln_program_context_params *params,
                                              kiln_program_context **ret_context);

/* Empties both maps, writes what waits to be written (for 60 s at most) and frees the context; sets
 * the pointer to NULL; takes NULL and a pointer to NULL. No other thread may be in a call on it or
 * on what was made in it. */
KILN_API void kiln_program_context_free(kiln_program_context **context);

/* Waits until what was built is in the store.
 * Returns KILN_OK; KILN_TIMEOUT; KILN_E_INVALID. Blocks: at most @timeout_ns. */
KILN_API kiln_status kiln_program_context_drain(kiln_program_context *context, uint64_t timeout_ns);

/* Sets what the programs map may hold. More keeps all; less evicts the excess, by policy, and their
 * kernels; 0 of either empties it and turns it off: then each who asks builds, or loads from the
 * store, for itself. Nothing on disk changes.
 *
 * @max_bytes    KILN_UNLIMITED
 * @max_entries  KILN_UNLIMITED
 * Returns KILN_OK; KILN_E_INVALID. Blocks: never. */
KILN_API kiln_status kiln_program_context_set_capacity(kiln_program_context *context,
                                                       uint64_t max_bytes, uint64_t max_entries);

/* @ret_max_bytes, @ret_max_entries  [out] either may be NULL; both 0 where the map is off
 * Returns KILN_OK; KILN_E_INVALID. Blocks: never. */
KILN_API kiln_status kiln_program_context_get_capacity(kiln_program_context *context,
                                                       uint64_t *ret_max_bytes,
                                                       uint64_t *ret_max_entries);

/* Empties both maps. Nothing on disk changes. */
KILN_API void kiln_program_context_clear(kiln_program_context *context);

/* Removes all programs of an image that is being unloaded, with their kernels, and returns how many
 * programs. Of those that are being built nothing is kept in memory. @image 0 is none. */
KILN_API size_t kiln_program_context_remove_image(kiln_program_context *context, uint64_t image);

/* The counters of the programs map, and those of the kernels map. As kiln_cache_get_stats.
 * Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_program_context_get_program_stats(kiln_program_context *context,
                                                            kiln_cache_stats *ret_stats);
KILN_API kiln_status kiln_program_context_get_kernel_stats(kiln_program_context *context,
                                                           kiln_cache_stats *ret_stats);

/* ---- descriptions ---- */

/* Where a program comes from, for the rules. */
typedef enum kiln_program_origin {
    KILN_ORIGIN_OF_FORM = 0, /* KILN_SOURCE_IL: an image; KILN_SOURCE_TEXT: source */
    KILN_ORIGIN_IMAGE = 1,   /* a device image, such as a compiler put into the executable */
    KILN_ORIGIN_SOURCE = 2   /* made at run time */
} kiln_program_origin;

/* What decides a build. */
typedef struct kiln_program_desc_params {
    size_t struct_size;

    /* What is built: code, or the programs that are linked. All of it is copied. */
    uint32_t form;   /* kiln_source_form; 0 with @linked */
    uint32_t origin; /* kiln_program_origin */
    kiln_bytes code;
    const kiln_program_desc *const *linked; /* compiled, each with its own options, and linked in
                                               this order; of the same context and device */
    size_t linked_count;

    /* What it is built with. The compiler gets the image's options, or the environment's in place
     * of them, then those that the environment appends, then the caller's; the linker likewise; a
     * build in one step gets the compiler's and then the linker's. */
    kiln_build_options image_options, options;
    const kiln_spec_constant *constants; /* in any order, each number once */
    size_t constant_count;

    size_t device;    /* index among the context's */
    uint64_t image;   /* for kiln_program_context_remove_image; 0: none */
    const char *name; /* for people; NULL: none */
} kiln_program_desc_params;

/* Describes a program: looks at all that decides its build, included files as well, and makes its
 * key. What changes afterwards is not seen, but where it has changed by the time that the program
 * is built the result is its builder's alone.
 *
 * @params    lives for the call
 * @ret_desc  [out] one reference, to be given back with kiln_program_desc_release
 * @error     may be NULL
 * Returns KILN_OK, also where it can't be told what decides the build: then it is not cached;
 * KILN_E_INVALID; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY; what the ops' describe and revision return
 * else. Blocks: on reading files. */
KILN_API kiln_status kiln_program_desc_new(kiln_program_context *context,
                                           const kiln_program_desc_params *params,
                                           kiln_program_desc **ret_desc, kiln_error *error);

/* One reference more; returns its argument. NULL is allowed. */
KILN_API kiln_program_desc *kiln_program_desc_retain(const kiln_program_desc *desc);

/* Gives a reference back and sets the pointer to NULL; takes NULL and a pointer to NULL. */
KILN_API void kiln_program_desc_release(kiln_program_desc **desc);

/* The key under which the store has it, such as `kiln why` compares; lives as long as @desc. NULL:
 * it can't be told, or NULL was given. */
KILN_API const kiln_key *kiln_program_desc_key(const kiln_program_desc *desc);

/* Why something is not kept. */
typedef enum kiln_uncached {
    KILN_UNCACHED_NOT = 0,     /* it is kept */
    KILN_UNCACHED_SOURCE = 1,  /* KILN_RULES_IMAGES: built from source */
    KILN_UNCACHED_LINKED = 2,  /* KILN_RULES_IMAGES: linked from several programs */
    KILN_UNCACHED_INTEROP = 3, /* the user's own handle */
    KILN_UNCACHED_DEVICE = 4,  /* what the device's builds depend on can't be told */
    KILN_UNCACHED_INPUTS = 5,  /* the same of this program's */
    KILN_UNCACHED_OFF = 6,     /* the map is off; there is no store, or it is only read */
    KILN_UNCACHED_SIZE = 7,    /* its code is smaller, or larger, than what is kept on disk */
    KILN_UNCACHED_CAPTURE = 8  /* the device gives no binaries, or too dearly to be asked by us, as
                                  PoCL does: see kiln/opencl.h */
} kiln_uncached;

/* "kept", "built from source", …; NULL for a value that is none. Static text. */
KILN_API const char *kiln_uncached_text(uint32_t uncached);

/* Whether something is kept, and why not. */
typedef struct kiln_program_caching {
    size_t struct_size; /* set by the caller */
    uint32_t memory;    /* kiln_uncached: of the maps. A kernel is kept where its program is */
    uint32_t store;     /* kiln_uncached: of the disk */
    char text[240];     /* for people: the first reason, with what it met; "" where both are kept */
} kiln_program_caching;

/* Says whether a program is cached, and if not why, as settings are now. What a store has already
 * is found also where it is only read, or the device gives no binaries.
 * Returns KILN_OK; KILN_E_INVALID. Blocks: on opening the process's persistent cache, where that
 * governs the context and isn't open. */
KILN_API kiln_status kiln_program_desc_get_caching(const kiln_program_desc *desc,
                                                   kiln_program_caching *ret_caching);

/* ---- programs ---- */

/* Where a program came from. */
typedef enum kiln_program_source_of {
    KILN_PROGRAM_FROM_MEMORY = 1,
    KILN_PROGRAM_FROM_STORE = 2,
    KILN_PROGRAM_FROM_BUILD = 3,
    KILN_PROGRAM_FROM_PRIVATE_BUILD = 4, /* for this caller alone: by the rules, or since the map is
                                            off or takes nothing more, or what decides the build
                                            changed meanwhile */
    KILN_PROGRAM_FROM_BLOB = 5
} kiln_program_source_of;

/* How a program came about. */
typedef struct kiln_program_result {
    size_t struct_size; /* set by the caller */
    uint32_t from;      /* kiln_program_source_of */
    int32_t waited;     /* 1: another thread or process built it meanwhile */
    /* What it took to build it, to load what the store had, and to wait for who built it; 0 where
     * that did not happen, and for programs that were not looked for anywhere. */
    uint64_t build_ns, load_ns, wait_ns;
    kiln_status store; /* why the store had nothing: KILN_MISS, KILN_E_CORRUPT, …; KILN_OK where it
                          wasn't asked, or had it */
} kiln_program_result;

/* Finds a program in memory, else in the store, else builds it. Where the device is out of
 * resources, host memory or device memory, all of this context that nobody holds is evicted, and it
 * is tried once more.
 *
 * @ret_program  [out] one hold, to be given back with kiln_program_release
 * @ret_result   [out] may be NULL; with its struct_size
 * @error        may be NULL; for KILN_E_BUILD the beginning of the build log
 * Returns KILN_OK; KILN_E_BUILD, to its builder and to those who waited, and with
 * KILN_CACHE_RETAIN_FAILURES to all who ask; KILN_E_RESOURCES, KILN_E_NO_MEMORY and what else the
 * device answers, and KILN_E_BUILD where what decides the build changed meanwhile, to its builder
 * alone: one of those who wait tries again; KILN_E_UNSUPPORTED: the device can't link, or takes no
 * code of this form; KILN_E_CYCLE; KILN_E_INVALID. A store that fails is a miss. Blocks: on the
 * build, or another's; what is in memory is found without. */
KILN_API kiln_status kiln_program_get(const kiln_program_desc *desc, kiln_program **ret_program,
                                      kiln_program_result *ret_result, kiln_error *error);

/* Makes a hold on a program of the user's own, so that kernels are had of it as of others. Nothing
 * of it is cached.
 *
 * @device       index among the context's
 * @handle       the backend's; released with the last hold on it, by the ops' release_program
 * @ret_program  [out]
 * Returns KILN_OK; KILN_E_INVALID, KILN_E_NO_MEMORY: the handle stays the caller's. Blocks: never.
 */
KILN_API kiln_status kiln_program_adopt(kiln_program_context *context, size_t device, void *handle,
                                        kiln_program **ret_program);

/* The backend's handle, such as a cl_program; lives as long as the hold. NULL for NULL. */
KILN_API void *kiln_program_handle(const kiln_program *program);

/* As kiln_program_desc_get_caching, of what the program was made of. */
KILN_API kiln_status kiln_program_get_caching(const kiln_program *program,
                                              kiln_program_caching *ret_caching);

/* One hold more; returns its argument. NULL is allowed. */
KILN_API kiln_program *kiln_program_retain(kiln_program *program);

/* Gives a hold back and sets the pointer to NULL; takes NULL and a pointer to NULL. Blocks: as the
 * ops' release_program does, where it was the last. */
KILN_API void kiln_program_release(kiln_program **program);

/* ---- kernels ---- */

/* Makes a kernel's name ready to be looked up.
 *
 * @desc      of its program; retained
 * @name      copied; not empty
 * @ret_desc  [out] one reference, to be given back with kiln_kernel_desc_release
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Blocks: never. */
KILN_API kiln_status kiln_kernel_desc_new(const kiln_program_desc *desc, const char *name,
                                          kiln_kernel_desc **ret_desc);

/* One reference more; returns its argument. NULL is allowed. */
KILN_API kiln_kernel_desc *kiln_kernel_desc_retain(const kiln_kernel_desc *desc);

/* Gives a reference back and sets the pointer to NULL; takes NULL and a pointer to NULL. */
KILN_API void kiln_kernel_desc_release(kiln_kernel_desc **desc);

/* Finds a kernel, or makes it; and before that its program, as kiln_program_get does, where it
 * isn't there. One that was met before costs no string's hash, no lock and no memory. Where
 * it is kept, all who ask hold the same kernel, arguments included: kiln_kernel_lock.
 *
 * @ret_kernel  [out] one hold, to be given back with kiln_kernel_release
 * @error       may be NULL
 * Returns what kiln_program_get returns; KILN_MISS: the program has no kernel of that name. Blocks:
 * as kiln_program_get. */
KILN_API kiln_status kiln_kernel_get(const kiln_kernel_desc *desc, kiln_kernel **ret_kernel,
                                     kiln_error *error);

/* The kernel of a program that is held: where that is not cached, and of no description, it is made
 * for this caller alone, and else shared as kiln_kernel_get shares it. Goes by the name as it is,
 * which costs more than a description.
 *
 * @device  index among those of the context: the one that it will run on
 * Returns as above. Blocks: as the ops' kernel does. */
KILN_API kiln_status kiln_program_get_kernel(kiln_program *program, const char *name, size_t device,
                                             kiln_kernel **ret_kernel, kiln_error *error);

/* Begins to read a context's kernels: what is peeked at stays valid until kiln_section_leave. As
 * kiln_section_enter. Neither may be NULL. */
KILN_API void kiln_kernel_section_enter(kiln_program_context *context, kiln_section *ret_section);

/* The backend's handle of a kernel that is in memory, or NULL: builds nothing, waits for no one,
 * takes no hold. Counts as a use of the program too. For one thread at a time at each kernel,
 * unless the device's kernels may be shared: there is no hold here that could be locked, which
 * kiln_kernel_get gives. Neither may be NULL. */
KILN_API void *kiln_kernel_peek(const kiln_section *section, const kiln_kernel_desc *desc);

/* The backend's handle, such as a cl_kernel; lives as long as the hold. NULL for NULL. */
KILN_API void *kiln_kernel_handle(const kiln_kernel *kernel);

/* The backend's handle of the kernel's program; lives as long as the hold on the kernel. NULL for
 * NULL. */
KILN_API void *kiln_kernel_program_handle(const kiln_kernel *kernel);

/* For those who set a shared kernel's arguments and enqueue it: nobody else is between lock and
 * unlock of the same kernel. Not to be locked twice by one thread. NULL is ignored. Blocks: until
 * the others are done. */
KILN_API void kiln_kernel_lock(kiln_kernel *kernel);
KILN_API void kiln_kernel_unlock(kiln_kernel *kernel);

/* One hold more; returns its argument. NULL is allowed. */
KILN_API kiln_kernel *kiln_kernel_retain(kiln_kernel *kernel);

/* Gives a hold back and sets the pointer to NULL; takes NULL and a pointer to NULL. */
KILN_API void kiln_kernel_release(kiln_kernel **kernel);

/* ---- cache blobs ---- */

/* What identifies the blob of a description: all that decides its build, and Kiln's own version and
 * source revision. Equal descriptions have equal IDs, in every process. The bytes have no
 * documented meaning, and there are some thousands: for the name of a file make a key with the ID
 * as its one part, and take that key's digest.
 *
 * @ret_size  [out] in bytes; 0 where there are no blobs: the device gives no binaries, or it can't
 *            be told what decides the build
 * @ret_id    [out] may be NULL; owned by @desc and valid as long as it is; NULL where the size is 0
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY; KILN_E_TOO_LARGE: what decides the build has
 * nearly as many parts as a key may have. Blocks: never. */
KILN_API kiln_status kiln_program_desc_cache_blob_id(const kiln_program_desc *desc,
                                                     size_t *ret_size, const uint8_t **ret_id);

/* Copies a program's blob: a binary from which the same description makes the program without
 * building it. It is taken from the device when it is asked for first, and kept with the program,
 * among whose bytes it counts from then on: later calls give equal bytes.
 *
 * @size  [in] of @blob; [out] of the blob; 0 where it is empty, which is legal: then building costs
 *        nothing that could be saved
 * @blob  NULL: only the size is wanted
 * Returns KILN_OK; KILN_E_TOO_LARGE: @blob is too small, and was not written; KILN_E_UNSUPPORTED,
 * with size 0: there are none for it, as kiln_program_desc_cache_blob_id says, or it is larger than
 * the device gives, or what decides the build changed while it was built, so that it is not what
 * the ID says; KILN_E_INVALID;
 * KILN_E_NO_MEMORY; what the ops' capture returns. Blocks: as capture does, with some devices for
 * seconds. */
KILN_API kiln_status kiln_program_get_cache_blob(const kiln_program *program, size_t *size,
                                                 uint8_t *blob);

/* Makes a program of its blob, and keeps it in memory like one that was built. Where memory has the
 * program already that one is given and the blob not looked at; a failure of its build that memory
 * has is forgotten. The store has no part in it.
 *
 * @size  in bytes; 0: an empty blob, with which this is kiln_program_get
 * @blob  read during the call; nothing in it is trusted
 * @ret_program, @ret_result, @error  as kiln_program_get
 * Returns what kiln_program_get returns; KILN_E_UNSUPPORTED: there are none for it, as
 * kiln_program_desc_cache_blob_id says; KILN_E_CORRUPT: no blob, or a damaged one; KILN_E_VERSION:
 * of a newer format; KILN_E_REFUSED: of another description, device, driver or version, and the
 * error says in which part it differs, or the device does not take it, or what decides its build
 * has changed. Then nothing was built. Blocks: on the device's load, or another's build. */
KILN_API kiln_status kiln_program_create_from_cache_blob(const kiln_program_desc *desc, size_t size,
                                                         const uint8_t *blob,
                                                         kiln_program **ret_program,
                                                         kiln_program_result *ret_result,
                                                         kiln_error *error);

#ifdef __cplusplus
}
#endif

#endif
