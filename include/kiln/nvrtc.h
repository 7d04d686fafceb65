/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC's device ops, for contexts of programs. Nothing here needs NVIDIA's headers, and the
 * library links neither NVRTC nor the driver: both are opened when a device is made.
 *
 * Options of a program are words between blanks; a word may stand in double quotes, which go.
 * --kiln-name-expression=TEXT is not NVRTC's, but an expression to be added to the program: kernels
 * are found by it, and their lowered names can be asked for.
 */
#ifndef KILN_NVRTC_H
#define KILN_NVRTC_H

#include <kiln/device.h>
#include <kiln/entry.h>
#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where programs are compiled, and where they are loaded. Immutable. Any thread. */
typedef struct kiln_nvrtc_device kiln_nvrtc_device;

/* What a device is made of. */
typedef struct kiln_nvrtc_device_params {
    size_t struct_size;
    const char *nvrtc; /* a libnvrtc's path or name; NULL: libnvrtc.so.13, .12, .11.2, the first
                          that is there. It stays loaded */

    /* A CUcontext of the caller's, borrowed: programs are loaded there, and are kernels' modules.
     * NULL: nothing is loaded, and libcuda isn't needed: a program is its code alone. */
    void *context;

    /* What -arch is to say, such as "sm_90"; copied. NULL: with a context its device's "sm_NN",
     * without one what NVRTC takes by itself, a "compute_NN". For those it gives PTX and no CUBIN.
     * The options of a program may say another. */
    const char *architecture;

    /* Headers that programs include by these names, without a file; copied. */
    size_t header_count;
    const char *const *header_names;
    const char *const *headers;

    const char *const *more; /* further variables that decide a build (KILN_KEY_ENV): patterns,
                                NULL-ended, copied; NULL: none */
} kiln_nvrtc_device_params;

/* Makes a device for the ops. The libnvrtc stays loaded, and is watched from then on, for which
 * Kiln stays loaded too.
 *
 * @params      lives for the call; NULL: all defaults
 * @ret_device  [out] to be given back with kiln_nvrtc_device_free
 * @error       may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: there is no NVRTC, or with a context no
 * driver that knows it; KILN_E_NO_MEMORY. Threads: any. Blocks: on loading libraries. */
KILN_API kiln_status kiln_nvrtc_device_new(const kiln_nvrtc_device_params *params,
                                           kiln_nvrtc_device **ret_device, kiln_error *error);

/* Frees a device and sets the pointer to NULL; takes NULL and a pointer to NULL. Contexts, programs
 * and kernels that use it must have been given back. */
KILN_API void kiln_nvrtc_device_free(kiln_nvrtc_device **device);

/* The ops that go with it: static. Their programs, which kiln_program_handle gives, are asked by
 * the calls below; their kernels are what cuLaunchKernel takes. NVRTC knows a source as
 * "program.cu", in the working directory. Descriptions are of the files as they are when they are
 * made, or when the program is first built or loaded since a file changed, if that is later; one
 * whose files have changed is past for good, also when they change back. To make one takes
 * a look at all that the program is known to read. If NVRTC can't be watched, programs are
 * built each time, as kiln_program_desc_get_caching says. */
KILN_API const kiln_device_ops *kiln_nvrtc_ops(void);

/* What NVRTC's functions of these names give. */
typedef enum kiln_nvrtc_output {
    KILN_NVRTC_LOG = 0,
    KILN_NVRTC_PTX = 1,
    KILN_NVRTC_CUBIN = 2,
    KILN_NVRTC_LTOIR = 3,
    KILN_NVRTC_OPTIXIR = 4,
    KILN_NVRTC_NVVM = 5
} kiln_nvrtc_output;

/* An output of a program, found or built, as NVRTC's function of that name gives it: texts with
 * their closing zero.
 *
 * @program    of these ops: what kiln_program_handle gives, not the kiln_program
 * @ret_bytes  [out] lives as long as the program; empty where NVRTC gives nothing
 * Returns KILN_OK; KILN_E_INVALID; KILN_MISS: this NVRTC has no such output. Threads: any. Blocks:
 * never. */
KILN_API kiln_status kiln_nvrtc_get_output(const void *program, uint32_t output,
                                           kiln_bytes *ret_bytes);

/* The lowered name of an expression that the program's options named.
 *
 * @program   as above
 * @ret_name  [out] lives as long as the program
 * Returns KILN_OK; KILN_E_INVALID; KILN_MISS: not named, or not valid. Threads: any. Blocks: never.
 */
KILN_API kiln_status kiln_nvrtc_get_lowered_name(const void *program, const char *expression,
                                                 const char **ret_name);

/* What NVRTC found where it looked while it was watched. */
typedef enum kiln_nvrtc_finding {
    KILN_NVRTC_FOUND_NOTHING = 1,
    KILN_NVRTC_FOUND_FILE = 2,
    KILN_NVRTC_FOUND_FOLDER = 3,
    KILN_NVRTC_FOUND_LINK = 4,    /* it asked where that leads */
    KILN_NVRTC_PROGRAM_FOLDER = 5 /* nothing was looked at: the program has to be in that folder */
} kiln_nvrtc_finding;

/* One thing that a result depends on. Later versions may append members. */
typedef struct kiln_nvrtc_read {
    const char *path;        /* lives as long as the entry */
    uint32_t found;          /* KILN_NVRTC_FOUND_… */
    int counts_from_program; /* the path counts from the program's folder, which isn't known */
    uint64_t size;           /* of a file, in bytes */
    kiln_status now; /* KILN_OK: it is as it was; KILN_MISS: it isn't; KILN_E_UNSUPPORTED: that
                        can't be told here */
} kiln_nvrtc_read;

/* Looks up what a result was made from, in an entry of NVRTC's: of programs that run under `kiln
 * run`, or of the ops. Such an entry holds a few results of one program, the newest first; one that
 * differs in nothing is found where the C library folds its constants the same, of which nothing is
 * told here. Relative paths count from the working directory.
 *
 * @result  from 0
 * @visit   is told of each; what is not 0 ends it
 * Returns KILN_OK; KILN_MISS: it holds fewer results; KILN_E_UNSUPPORTED: it is another kind of
 * entry, or of an earlier version, which is not found any more; KILN_E_CORRUPT, maybe after some;
 * KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any. Blocks: on reading. */
KILN_API kiln_status kiln_nvrtc_each_read(const kiln_entry *entry, size_t result,
                                          int (*visit)(void *user, const kiln_nvrtc_read *read),
                                          void *user);

#ifdef __cplusplus
}
#endif

#endif
