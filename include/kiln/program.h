/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs and kernels of a device context: each is built once, kept while there is room, and found
 * again by the next process. Also cache blobs, for callers that keep binaries themselves.
 * docs/programs.md describes both.
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
 * A description contains everything that decides a build. It is examined once, when it is made, so
 * a look-up hashes neither code nor names. A program is found in memory, otherwise in the store,
 * otherwise it is built: by one thread of one process, while the others wait. A kernel belongs to
 * its program and leaves the cache with it. A program or kernel that is held stays valid whatever
 * happens to the caches.
 *
 * All calls: KILN_E_INVALID, which changes nothing, means a NULL that is not allowed, or a
 * parameter structure with a non-zero field that this version does not know. Any thread may make
 * any call unless its comment says otherwise. The environment is read only by kiln/config.h, for
 * callers that ask for it.
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

/* A device context of the caller's, with its map of programs and its map of kernels. Objects that
 * were made in it may outlive it and can still be used: programs and kernels that are held keep
 * their handles and blobs, and a kernel that is made from such a program belongs to its caller
 * alone, because nothing is kept any more. The device and its ops must outlive all these objects.
 */
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

/* Which programs are kept. Others are built for each caller. */
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

    /* The store on disk: borrowed, and to be closed after the context was freed. NULL: see
     * store_source. */
    kiln_store *store;
    /* Selects the store for each request if the context has none of its own, as
     * kiln_persistent_source does. NULL: memory only. */
    const kiln_store_source *store_source;
    uint32_t rules; /* a kiln_program_rules */

    /* The bounds of the programs map, as in kiln_cache_params. The size of a program is that of its
     * binary, if the device reports that cheaply; otherwise that of its code. */
    uint64_t max_programs; /* 0: 1024; or KILN_UNLIMITED */
    uint64_t max_bytes;    /* 0: 256 MiB; or KILN_UNLIMITED */
    uint32_t policy;       /* a kiln_policy */
    uint32_t flags;        /* KILN_CACHE_… or-ed */
    uint64_t max_kernels;  /* bound of the kernels map; 0: 65,536; or KILN_UNLIMITED */

    /* The smallest and largest code, in bytes, whose program is kept on disk. Both 0: any. */
    uint64_t min_stored_bytes, max_stored_bytes;

    /* Build options from the environment: @replaced takes the place of an image's own options,
     * @appended follows them. Copied. */
    kiln_build_options replaced, appended;

    /* Name, version and source revision of the library that embeds Kiln, which decide what it makes
     * of an image; part of each key. Copied; NULL: none. */
    const char *library;
} kiln_program_context_params;

/* Creates an empty context. Devices that the ops declare interchangeable count as one: what is
 * built for the first of them serves all.
 *
 * @params       read during the call
 * @ret_context  [out] to be freed with kiln_program_context_free
 * Returns KILN_OK; KILN_E_INVALID: also if the ops lack a function that kiln/device.h requires;
 * KILN_E_NO_MEMORY; what the ops' identity returns, except KILN_E_UNSUPPORTED: the context then
 * builds programs and keeps none. Blocks: as identity does. */
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

/* Sets the capacity of the programs map. A larger one keeps everything. A smaller one evicts the
 * excess, by the policy, with its kernels. 0 for either limit empties the map and disables it: each
 * caller then builds for itself, or loads from the store. Nothing on disk changes.
 *
 * @max_bytes    or KILN_UNLIMITED
 * @max_entries  or KILN_UNLIMITED
 * Returns KILN_OK; KILN_E_INVALID. Blocks: never. */
KILN_API kiln_status kiln_program_context_set_capacity(kiln_program_context *context,
                                                       uint64_t max_bytes, uint64_t max_entries);

/* Reads the capacity of the programs map.
 *
 * @ret_max_bytes, @ret_max_entries  [out] either may be NULL; both 0 if the map is disabled
 * Returns KILN_OK; KILN_E_INVALID. Blocks: never. */
KILN_API kiln_status kiln_program_context_get_capacity(kiln_program_context *context,
                                                       uint64_t *ret_max_bytes,
                                                       uint64_t *ret_max_entries);

/* Empties both maps. Nothing on disk changes. NULL is ignored. */
KILN_API void kiln_program_context_clear(kiln_program_context *context);

/* Removes all programs of an image that is being unloaded, with their kernels, and returns the
 * number of programs. Programs of the image that are being built are not kept in memory. Image 0
 * has no programs. */
KILN_API size_t kiln_program_context_remove_image(kiln_program_context *context, uint64_t image);

/* Read the counters of the programs map, and of the kernels map, as kiln_cache_get_stats does.
 * Returns KILN_OK; KILN_E_INVALID. */
KILN_API kiln_status kiln_program_context_get_program_stats(kiln_program_context *context,
                                                            kiln_cache_stats *ret_stats);
KILN_API kiln_status kiln_program_context_get_kernel_stats(kiln_program_context *context,
                                                           kiln_cache_stats *ret_stats);

/* ---- descriptions ---- */

/* The origin of a program, for the rules. */
typedef enum kiln_program_origin {
    KILN_ORIGIN_OF_FORM = 0, /* an image with KILN_SOURCE_IL, source with KILN_SOURCE_TEXT */
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
        *linked; /* the programs to be compiled, each with its own options, and linked in this
                    order; all of the same context and device */
    size_t linked_count;

    /* How it is built. The compiler gets the options of the image, or instead those with which the
     * environment replaces them; then those that the environment appends; then those of the caller.
     * The same holds for the linker. A build in one step gets the compiler's options, then the
     * linker's. */
    kiln_build_options image_options, options;
    const kiln_spec_constant *constants; /* in any order, each id once */
    size_t constant_count;

    size_t device;    /* index into the devices of the context */
    uint64_t image;   /* for kiln_program_context_remove_image; 0: none */
    const char *name; /* for messages; NULL: none */
} kiln_program_desc_params;

/* Makes a description: examines everything that decides the build, including included files, and
 * makes the key. Later changes are not noticed, but if the inputs have changed by the time that the
 * program is built, the result is given to its builder alone.
 *
 * @params    read during the call
 * @ret_desc  [out] one reference, to be released with kiln_program_desc_release
 * @error     may be NULL
 * Returns KILN_OK, even if the inputs of the build are unknown: the program is then not cached;
 * KILN_E_INVALID; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY; what else the ops' describe and revision
 * return. Blocks: on reading files. */
KILN_API kiln_status kiln_program_desc_new(kiln_program_context *context,
                                           const kiln_program_desc_params *params,
                                           kiln_program_desc **ret_desc, kiln_error *error);

/* Adds a reference and returns its argument. NULL is allowed. */
KILN_API kiln_program_desc *kiln_program_desc_retain(const kiln_program_desc *desc);

/* Releases a reference and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_program_desc_release(kiln_program_desc **desc);

/* Returns the key under which a store has the program, and which `kiln why` compares. It lives as
 * long as @desc. NULL: the inputs of the build are unknown, or @desc is NULL. */
KILN_API const kiln_key *kiln_program_desc_key(const kiln_program_desc *desc);

/* Why a program is not kept. */
typedef enum kiln_uncached {
    KILN_UNCACHED_NOT = 0,     /* it is kept */
    KILN_UNCACHED_SOURCE = 1,  /* KILN_RULES_IMAGES: built from source */
    KILN_UNCACHED_LINKED = 2,  /* KILN_RULES_IMAGES: linked from several programs */
    KILN_UNCACHED_INTEROP = 3, /* a handle of the user's own */
    KILN_UNCACHED_DEVICE = 4,  /* the inputs of the device's builds are unknown */
    KILN_UNCACHED_INPUTS = 5,  /* the inputs of this program's build are unknown */
    KILN_UNCACHED_OFF = 6,     /* the map is disabled; there is no store, or it is read-only */
    KILN_UNCACHED_SIZE = 7,    /* its code is smaller or larger than the context keeps on disk */
    KILN_UNCACHED_CAPTURE = 8  /* the device gives no binaries, or only at a cost that Kiln does not
                                  impose on the application, as with PoCL: see kiln/opencl.h */
} kiln_uncached;

/* Returns "kept", "built from source", …; NULL for an unknown value. The text is static. */
KILN_API const char *kiln_uncached_text(uint32_t uncached);

/* Whether a program is kept, and if not, why. */
typedef struct kiln_program_caching {
    size_t struct_size; /* set by the caller */
    uint32_t memory;    /* a kiln_uncached: of the maps. A kernel is kept if its program is */
    uint32_t store;     /* a kiln_uncached: of the disk */
    char text[240];     /* for messages: the first reason, with its cause; "" if both are kept */
} kiln_program_caching;

/* Reports whether a program is cached, and if not, why, by the present settings. Entries that a
 * store already has are found even if the store is read-only or the device gives no binaries.
 *
 * @ret_caching  [in, out] with its struct_size set
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
    /* For this caller alone: because of the rules, because the map is disabled or admits nothing
     * more, or because the inputs changed during the build. */
    KILN_PROGRAM_FROM_PRIVATE_BUILD = 4,
    KILN_PROGRAM_FROM_BLOB = 5
} kiln_program_from;

/* How a program was obtained. */
typedef struct kiln_program_result {
    size_t struct_size; /* set by the caller */
    uint32_t from;      /* a kiln_program_from */
    int32_t waited;     /* 1: another thread or process built it meanwhile; otherwise 0 */
    /* How long it took to build the program, to load it from the store, and to wait for another
     * builder. 0 if that did not happen, and for programs that were not looked up. */
    uint64_t build_ns, load_ns, wait_ns;
    kiln_status store; /* why the store did not have it: KILN_MISS, KILN_E_CORRUPT, …; KILN_OK if it
                          had it, or was not asked */
} kiln_program_result;

/* Finds a program in memory, otherwise in the store, otherwise builds it. If the device is out of
 * resources, or host or device memory is exhausted, all programs and kernels of this context that
 * nobody holds are evicted, and the operation is tried once more. A store that fails counts as a
 * miss.
 *
 * @ret_program  [out] one hold, to be released with kiln_program_release
 * @ret_result   [in, out] with its struct_size set; may be NULL
 * @error        may be NULL; for KILN_E_BUILD it receives the beginning of the build log
 * Returns KILN_OK; KILN_E_BUILD, to the builder and to all waiters, and with
 * KILN_CACHE_RETAIN_FAILURES to all later callers; KILN_E_RESOURCES, KILN_E_NO_MEMORY and other
 * errors of the device, and KILN_E_BUILD if the inputs changed during the build: to the builder
 * alone, and one of the waiters tries again; KILN_E_UNSUPPORTED: the device can't link, or does not
 * accept code of this form; KILN_E_CYCLE: the build would wait for itself; KILN_E_INVALID. Blocks:
 * on the build, by this or another caller; not if the program is in memory. */
KILN_API kiln_status kiln_program_get(const kiln_program_desc *desc, kiln_program **ret_program,
                                      kiln_program_result *ret_result, kiln_error *error);

/* Makes a hold on a program of the user's own, so kernels can be obtained from it like from any
 * other. Nothing of it is cached.
 *
 * @device       index into the devices of the context
 * @handle       the backend's; released by the ops' release_program together with the last hold
 * @ret_program  [out] one hold, to be released with kiln_program_release
 * Returns KILN_OK; KILN_E_INVALID, KILN_E_NO_MEMORY: the handle is still the caller's. Blocks:
 * never. */
KILN_API kiln_status kiln_program_adopt(kiln_program_context *context, size_t device, void *handle,
                                        kiln_program **ret_program);

/* Returns the backend's handle, such as a cl_program, which lives as long as the hold. NULL for
 * NULL. */
KILN_API void *kiln_program_handle(const kiln_program *program);

/* Does the same as kiln_program_desc_get_caching, for the description that the program was made
 * from. */
KILN_API kiln_status kiln_program_get_caching(const kiln_program *program,
                                              kiln_program_caching *ret_caching);

/* Adds a hold and returns its argument. NULL is allowed. */
KILN_API kiln_program *kiln_program_retain(kiln_program *program);

/* Releases a hold and sets the pointer to NULL. NULL and a pointer to NULL are allowed. Blocks: for
 * the last hold, as the ops' release_program does. */
KILN_API void kiln_program_release(kiln_program **program);

/* ---- kernels ---- */

/* Prepares the name of a kernel for look-ups.
 *
 * @desc      of the kernel's program; retained
 * @name      copied; not empty
 * @ret_desc  [out] one reference, to be released with kiln_kernel_desc_release
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Blocks: never. */
KILN_API kiln_status kiln_kernel_desc_new(const kiln_program_desc *desc, const char *name,
                                          kiln_kernel_desc **ret_desc);

/* Adds a reference and returns its argument. NULL is allowed. */
KILN_API kiln_kernel_desc *kiln_kernel_desc_retain(const kiln_kernel_desc *desc);

/* Releases a reference and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_kernel_desc_release(kiln_kernel_desc **desc);

/* Finds a kernel, or makes it; if its program isn't there, obtains that first, as kiln_program_get
 * does. If the kernel is in memory, this hashes no text, takes no lock and allocates nothing. All
 * callers hold the same kernel while it is kept, including its arguments: see kiln_kernel_lock.
 *
 * @ret_kernel  [out] one hold, to be released with kiln_kernel_release
 * @error       may be NULL
 * Returns what kiln_program_get returns; KILN_MISS: the program has no kernel of that name. Blocks:
 * as kiln_program_get. */
KILN_API kiln_status kiln_kernel_get(const kiln_kernel_desc *desc, kiln_kernel **ret_kernel,
                                     kiln_error *error);

/* Finds or makes a kernel of a program that is held. If the program is neither cached nor made from
 * a description, the kernel is made for this caller alone; otherwise it is shared, as by
 * kiln_kernel_get. A look-up by the bare name costs more than one by a description.
 *
 * @name        not empty
 * @device      index into the devices of the context: the one that the kernel will run on
 * @ret_kernel  [out] one hold, to be released with kiln_kernel_release
 * @error       may be NULL
 * Returns as kiln_kernel_get. Blocks: as the ops' kernel does. */
KILN_API kiln_status kiln_program_get_kernel(kiln_program *program, const char *name, size_t device,
                                             kiln_kernel **ret_kernel, kiln_error *error);

/* Enters a read section on a context's kernels, as kiln_section_enter does: kernels that are peeked
 * at stay valid until kiln_section_leave. Neither argument may be NULL; unchecked, for speed. */
KILN_API void kiln_kernel_section_enter(kiln_program_context *context, kiln_section *ret_section);

/* Returns the backend's handle of a kernel that is in memory, or NULL. Builds nothing, waits for
 * nothing, and takes no hold. Counts as a use of the program too. Only one thread at a time may use
 * each kernel, unless the device's kernels may be shared: there is no hold to lock here, which
 * kiln_kernel_get provides. Neither argument may be NULL; unchecked, for speed. */
KILN_API void *kiln_kernel_peek(const kiln_section *section, const kiln_kernel_desc *desc);

/* Returns the backend's handle, such as a cl_kernel, which lives as long as the hold. NULL for
 * NULL. */
KILN_API void *kiln_kernel_handle(const kiln_kernel *kernel);

/* Returns the backend's handle of the kernel's program, which lives as long as the hold on the
 * kernel. NULL for NULL. */
KILN_API void *kiln_kernel_program_handle(const kiln_kernel *kernel);

/* Lock and unlock a shared kernel, for threads that set its arguments and enqueue it. A thread must
 * not lock the same kernel twice. NULL is ignored. Blocks: until other threads have unlocked the
 * kernel. */
KILN_API void kiln_kernel_lock(kiln_kernel *kernel);
KILN_API void kiln_kernel_unlock(kiln_kernel *kernel);

/* Adds a hold and returns its argument. NULL is allowed. */
KILN_API kiln_kernel *kiln_kernel_retain(kiln_kernel *kernel);

/* Releases a hold and sets the pointer to NULL. NULL and a pointer to NULL are allowed. Blocks: for
 * the last hold, as the ops' release functions do. */
KILN_API void kiln_kernel_release(kiln_kernel **kernel);

/* ---- cache blobs ---- */

/* Returns the ID of a description's blob. The ID covers everything that decides the build, and
 * Kiln's own version and source revision. Equal descriptions have equal IDs in every process. The
 * meaning of the bytes is not documented, and there are some thousands of them: for a file name,
 * make a key with the ID as its only part, and use the digest of that key.
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
 * among whose bytes it counts from then on: later calls return equal bytes.
 *
 * @size  [in] of @blob; [out] of the program's blob; 0 if that is empty, which is valid: building
 *        costs nothing that a blob could save
 * @blob  [out] NULL: only the size is wanted
 * Returns KILN_OK; KILN_E_TOO_LARGE: @blob is too small, and was not written; KILN_E_UNSUPPORTED,
 * with size 0: the program has no blob, for a reason that kiln_program_desc_cache_blob_id names,
 * because the binary is larger than the device gives, or because the inputs changed during the
 * build, so the program is not what the ID says; KILN_E_INVALID; KILN_E_NO_MEMORY; what the ops'
 * capture returns. Blocks: as capture does, with some devices for seconds. */
KILN_API kiln_status kiln_program_get_cache_blob(const kiln_program *program, size_t *size,
                                                 uint8_t *blob);

/* Makes a program from its blob, and keeps it in memory like one that was built. If memory already
 * has the program, the call returns that and does not read the blob. A kept failure of its build is
 * discarded. The store is not used.
 *
 * @size         in bytes; 0: an empty blob, with which this is kiln_program_get
 * @blob         read during the call; nothing in it is trusted
 * @ret_program  [out] one hold, to be released with kiln_program_release
 * @ret_result   [in, out] with its struct_size set; may be NULL
 * @error        may be NULL
 * Returns what kiln_program_get returns; KILN_E_UNSUPPORTED: the program has no blobs, as
 * kiln_program_desc_cache_blob_id says; KILN_E_CORRUPT: not a blob, or damaged; KILN_E_VERSION: of
 * a newer format; KILN_E_REFUSED: the blob belongs to a different description, device, driver or
 * version, and @error names the part that differs, or the device does not accept it, or the inputs
 * of the build have changed. Nothing was built then. Blocks: on the device's load, or on a build by
 * another caller. */
KILN_API kiln_status kiln_program_create_from_cache_blob(const kiln_program_desc *desc, size_t size,
                                                         const uint8_t *blob,
                                                         kiln_program **ret_program,
                                                         kiln_program_result *ret_result,
                                                         kiln_error *error);

#ifdef __cplusplus
}
#endif

#endif
