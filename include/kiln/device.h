/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops: what Kiln asks of a device runtime. A backend only talks to its runtime; it knows
 * nothing of memory, stores and leases. Kiln brings one for OpenCL (kiln/opencl.h) and one for
 * NVRTC (kiln/nvrtc.h); authors bring their own.
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

/* What is to be built. Lives for the call. */
typedef struct kiln_program_source {
    size_t struct_size;
    uint32_t form;       /* kiln_source_form */
    kiln_bytes code;     /* text without a closing zero, or an intermediate language */
    const char *options; /* as the runtime is to get them; NULL and "" may differ to it */
    const char *name;    /* for people; may be NULL */
    const kiln_spec_constant *constants; /* by ascending id, each once; NULL where there are none */
    size_t constant_count;
    uint64_t revision; /* for load: what the ops answered for it when it was described; 0: none */
} kiln_program_source;

/* What the code is. */
typedef enum kiln_source_form { KILN_SOURCE_TEXT = 1, KILN_SOURCE_IL = 2 } kiln_source_form;

/* What a capture yields. The backend allocates with malloc; the caller frees it with
 * kiln_capture_done. */
typedef struct kiln_capture {
    void *payload;
    size_t payload_size;
    void *answers; /* what the payload can't answer as the build did; NULL where nothing */
    size_t answers_size;
    char *log;    /* the build log; NULL where there is none */
    char *device; /* for people: platform, device, driver; may be NULL */
    char *name;   /* for people: the kernels; may be NULL */

    /* Given: the entry of the store that is replaced by this, for which load answered KILN_MISS.
     * Borrowed. NULL: there is none. */
    const kiln_entry *replaces;
} kiln_capture;

/* Frees what a capture holds, with free(), and empties it. Threads: any. Blocks: never. */
KILN_API void kiln_capture_done(kiln_capture *capture);

/* What asking a runtime for a binary costs. */
typedef enum kiln_capture_cost {
    KILN_CAPTURE_NEVER = 0, /* the runtime gives no binaries */
    KILN_CAPTURE_CHEAP = 1, /* at once, on the thread that built */
    KILN_CAPTURE_DEAR = 2   /* seconds: outside the application's process, or not at all */
} kiln_capture_cost;

/* A runtime. All calls may come from any thread, and at the same time. @device is the backend's
 * handle of one device in one context. Handles of programs and kernels are opaque to Kiln and
 * never NULL: KILN_OK without one counts as KILN_E_INVALID, and so does a status above KILN_OK that
 * a slot does not name. Each slot is required unless it says otherwise. Where build, capture, load,
 * kernel, compile, link or program_bytes ends its thread, or throws in C++, that request is over,
 * and one of those who wait goes on; the others do neither.
 */
typedef struct kiln_device_ops {
    size_t struct_size;
    const char *name; /* "opencl" */
    uint32_t capture_cost;

    /* Appends what decides a build beside its source: platform, device, driver, compiler, and what
     * steers them. Parts are named as the backend likes, but the first not KILN_REQUEST_PART
     * (kiln/store.h). KILN_E_UNSUPPORTED: can't be told, so nothing of this device is cached. */
    kiln_status (*identity)(void *device, kiln_key_builder *key);

    /* Appends what @source adds to that: code, options, and the contents of what it includes. Not
     * its constants, which a context adds itself. KILN_E_UNSUPPORTED: can't be told; @error, which
     * is never NULL, says why by its text. */
    kiln_status (*describe)(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error);

    /* Builds. KILN_E_BUILD: the source's own fault, with the log in @ret_log (malloc'ed text, NULL
     * where there is none); KILN_E_RESOURCES, KILN_E_NO_MEMORY: out of the device's resources or
     * memory, or of the host's; any other error counts as transient. */
    kiln_status (*build)(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log);

    /* Takes the built program's binary into @ret_capture, which is all zeros but for what is given.
     * On failure nothing is kept on disk, and whoever asked for a blob gets the status. Not called,
     * and may be NULL, with KILN_CAPTURE_NEVER; with KILN_CAPTURE_DEAR only for a blob. */
    kiln_status (*capture)(void *device, void *program, kiln_capture *ret_capture);

    /* Makes a program of a verified entry: of its payload, which is what capture gave. One of a
     * store may be found also where this device captures nothing. KILN_E_REFUSED: the runtime won't
     * have it. KILN_MISS: nothing is wrong with it, but what it was built from, beside what
     * describe says, is not what it was, or of another revision than @source. An entry of a store
     * is removed if it is refused, and else stays until what is built in its place replaces it;
     * either way the program is built. A blob is refused. The source of a link has no code: what it
     * was built from, its entry has to tell. */
    kiln_status (*load)(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program);

    /* Makes a kernel. KILN_MISS: the program has none of that name. Where the program is kept
     * in memory, all who ask for the kernel share one. */
    kiln_status (*kernel)(void *device, void *program, const char *name, void **ret_kernel);

    void (*release_program)(void *device, void *program);
    void (*release_kernel)(void *device, void *kernel);

    /* 1 where a program built for one may run on the other. NULL: never. */
    int (*interchangeable)(void *device, void *other);

    /* Compiles, for link: as build. What it makes is given back with release_program. NULL:
     * programs can't be linked here. */
    kiln_status (*compile)(void *device, const kiln_program_source *source, void **ret_object,
                           char **ret_log);

    /* Links what was compiled, in that order. As build. NULL where compile is. */
    kiln_status (*link)(void *device, void *const *objects, size_t count, const char *options,
                        void **ret_program, char **ret_log);

    /* What a program occupies, in bytes; 0: can't be told. NULL, or 0: as much as its code. */
    uint64_t (*program_bytes)(void *device, void *program);

    /* For what decides a build, and is told by having built alone, as the files that a compiler has
     * read: a number that is another whenever that has changed, and then none that it was before.
     * In memory a program is found by those who get the same; in a store it is found whatever it
     * is, and load tells whether it is good. Asked after describe, for each source that is linked,
     * and once more after a build: where it is another by then, what was built is its builder's
     * alone. KILN_E_UNSUPPORTED as there. NULL: there is no such thing. */
    kiln_status (*revision)(void *device, const kiln_program_source *source, uint64_t *ret_revision,
                            kiln_error *error);
} kiln_device_ops;

#ifdef __cplusplus
}
#endif

#endif
