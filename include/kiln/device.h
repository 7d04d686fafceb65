/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops: the functions of a device runtime that Kiln calls. A backend implements them by
 * calling its runtime, and knows nothing about caches in memory, stores or leases. Kiln has one
 * backend for OpenCL (kiln/opencl.h) and one for NVRTC (kiln/nvrtc.h). A program can define ops of
 * its own.
 *
 *     const kiln_device_ops ops = {
 *         .struct_size = sizeof ops,
 *         .name = "mine",
 *         .capture_cost = KILN_CAPTURE_CHEAP,
 *         .identity = identity, .describe = describe,
 *         .build = build, .capture = capture, .load = load, .kernel = kernel,
 *         .release_program = release_program, .release_kernel = release_kernel,
 *     };
 *     const kiln_program_context_params in = {
 *         .struct_size = sizeof in, .ops = &ops, .devices = &device, .device_count = 1};
 *     kiln_program_context_new(&in, &programs);
 */
#ifndef KILN_DEVICE_H
#define KILN_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a specialization constant. */
typedef struct kiln_spec_constant {
    uint32_t id;
    kiln_bytes value;
} kiln_spec_constant;

/* What a call builds. Valid during the call. */
typedef struct kiln_program_source {
    size_t struct_size;
    uint32_t form;       /* a kiln_source_form */
    kiln_bytes code;     /* text without a terminating NUL, or an intermediate language */
    const char *options; /* passed to the runtime unchanged; the runtime might treat NULL and ""
                            differently */
    const char *name;    /* for messages; may be NULL */
    const kiln_spec_constant *constants; /* by ascending id, each id once; NULL if there are none */
    size_t constant_count;
    uint64_t revision; /* for load: the revision that the ops reported when the source was
                          described; 0: none */
} kiln_program_source;

/* The form of the code. */
typedef enum kiln_source_form { KILN_SOURCE_TEXT = 1, KILN_SOURCE_IL = 2 } kiln_source_form;

/* The result of a capture. The backend allocates the members with malloc; the caller frees them
 * with kiln_capture_done. */
typedef struct kiln_capture {
    void *payload;
    size_t payload_size;
    void *answers; /* facts about the build that the payload does not contain, in the device's own
                      format; NULL if there are none */
    size_t answers_size;
    char *log;    /* the build log; NULL if there is none */
    char *device; /* for messages: platform, device and driver; may be NULL */
    char *name;   /* for messages: the kernels; may be NULL */

    /* Set by the caller: the stored entry that this capture replaces, because load returned
     * KILN_MISS for it. Borrowed. NULL: there is none. */
    const kiln_entry *replaces;
} kiln_capture;

/* Frees the members of a capture with free(), and zeroes it. NULL is allowed. Threads: any. Blocks:
 * never. */
KILN_API void kiln_capture_done(kiln_capture *capture);

/* The cost of obtaining a binary from a runtime. */
typedef enum kiln_capture_cost {
    KILN_CAPTURE_NEVER = 0,    /* the runtime gives no binaries */
    KILN_CAPTURE_CHEAP = 1,    /* nearly no time: done on the thread that built */
    KILN_CAPTURE_EXPENSIVE = 2 /* seconds: done outside the application's process, or not at all */
} kiln_capture_cost;

/* The functions of a device runtime. Kiln can call them on any thread, and several of them at the
 * same time. @device is the backend's handle of one device in one context. Handles of programs and
 * kernels are opaque to Kiln and never NULL. If a function returns KILN_OK without a handle, or a
 * positive status that its comment does not name, Kiln takes that for KILN_E_INVALID. Each function
 * is required unless its comment says otherwise.
 *
 * If build, capture, load, kernel, compile, link or program_bytes ends its thread, or throws in
 * C++, the request that called it ends, and one of the threads that wait for that request takes
 * over. The other functions must neither end their thread nor throw. */
typedef struct kiln_device_ops {
    size_t struct_size;
    const char *name; /* such as "opencl" */
    uint32_t capture_cost;

    /* Appends everything that decides a build except its source: platform, device, driver,
     * compiler, and the settings that affect them. The backend chooses the names of the parts, but
     * the first must not be KILN_REQUEST_PART (kiln/store.h). KILN_E_UNSUPPORTED: the inputs are
     * unknown, so nothing that is built for this device is cached. */
    kiln_status (*identity)(void *device, kiln_key_builder *key);

    /* Appends what @source adds to the identity: code, options, and the contents of included files.
     * A context adds the specialization constants itself. @error is never NULL. KILN_E_UNSUPPORTED:
     * the inputs are unknown; the text of @error says why. */
    kiln_status (*describe)(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error);

    /* Builds a program. KILN_E_BUILD: the source is wrong, and @ret_log has the build log (text
     * allocated with malloc; NULL if there is none). KILN_E_RESOURCES or KILN_E_NO_MEMORY: the
     * device or the host is out of resources or memory. Any other error counts as transient. */
    kiln_status (*build)(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log);

    /* Obtains the binary of a built program. @ret_capture is all zeros except for the members that
     * the caller sets. If the capture fails, nothing is kept on disk, and a caller that asked for a
     * blob gets the status. With KILN_CAPTURE_NEVER, this function is not called and may be NULL.
     * With KILN_CAPTURE_EXPENSIVE, it is called for blobs only. */
    kiln_status (*capture)(void *device, void *program, kiln_capture *ret_capture);

    /* Makes a program from a verified entry, which contains what capture returned. A store can have
     * an entry even if this device captures nothing. The source of a linked program has no code;
     * the entry itself must record what it was built from.
     *
     * KILN_E_REFUSED: the runtime does not accept the payload. KILN_MISS: the entry is sound, but
     * inputs that describe does not report have changed since it was built, or do not have the
     * revision of @source. In both cases the program is built. A refused entry is removed from the
     * store; an entry for which load returned KILN_MISS stays until the new build replaces it. A
     * blob is refused in both cases. */
    kiln_status (*load)(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program);

    /* Makes a kernel. KILN_MISS: the program has no kernel of that name. If the program is kept in
     * memory, all callers that ask for the kernel share one object. */
    kiln_status (*kernel)(void *device, void *program, const char *name, void **ret_kernel);

    void (*release_program)(void *device, void *program);
    void (*release_kernel)(void *device, void *kernel);

    /* Returns 1 if a program that was built for one device can also run on the other; otherwise 0.
     * NULL: no devices are interchangeable. */
    int (*interchangeable)(void *device, void *other);

    /* Compiles an object that can be passed to link. The statuses and @ret_log are as for build.
     * The object is released with release_program. NULL: programs can't be linked on this device.
     */
    kiln_status (*compile)(void *device, const kiln_program_source *source, void **ret_object,
                           char **ret_log);

    /* Links objects in the given order. The statuses and @ret_log are as for build. NULL if and
     * only if compile is NULL. */
    kiln_status (*link)(void *device, void *const *objects, size_t count, const char *options,
                        void **ret_program, char **ret_log);

    /* Returns the size of a program in bytes; 0: unknown. If this function is NULL or returns 0,
     * Kiln uses the size of the code that the program was built from. */
    uint64_t (*program_bytes)(void *device, void *program);

    /* Reports the revision of the inputs that only a build can reveal, such as the files that a
     * compiler has read. A revision is a number that changes whenever any of these inputs changes,
     * and that is never used again. In memory, a program is found only by callers with the same
     * revision. In a store, an entry is found whatever its revision is, and load decides whether it
     * is valid.
     *
     * Called after describe, once for each source of a link, and again after a build. If the
     * revision has changed meanwhile, only the caller that built the program gets the program.
     * KILN_E_UNSUPPORTED: as for describe. NULL: there are no such inputs. */
    kiln_status (*revision)(void *device, const kiln_program_source *source, uint64_t *ret_revision,
                            kiln_error *error);
} kiln_device_ops;

#ifdef __cplusplus
}
#endif

#endif
