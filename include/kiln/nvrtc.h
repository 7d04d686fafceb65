/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC's device ops, for contexts of kiln/program.h. This header includes none of NVIDIA's
 * headers, and the library links neither NVRTC nor the driver: both are opened when a device is
 * created.
 *
 * The options of a program are words separated by blanks. A word may be enclosed in double quotes,
 * which are removed. --kiln-name-expression=TEXT is not an option of NVRTC, but of Kiln. It adds a
 * name expression to the program. Kernels can then be found by this expression, and their lowered
 * names can be obtained.
 */
#ifndef KILN_NVRTC_H
#define KILN_NVRTC_H

#include <kiln/device.h>
#include <kiln/entry.h>
#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where programs are compiled, and where they are loaded. Immutable. Any thread may use it. */
typedef struct kiln_nvrtc_device kiln_nvrtc_device;

/* How a device is created. */
typedef struct kiln_nvrtc_device_params {
    size_t struct_size;
    const char *nvrtc; /* path or name of a libnvrtc; NULL: the first that exists of libnvrtc.so.13,
                          .12 and .11.2. The library stays loaded */

    /* A CUcontext, borrowed, into which programs are loaded; kernels belong to its modules. NULL:
     * programs are compiled but not loaded, and libcuda isn't needed. */
    void *context;

    /* The value of -arch, such as "sm_90"; copied. NULL: if there is a context, the "sm_NN" of its
     * device. Otherwise NVRTC's default, a "compute_NN", for which NVRTC produces PTX and no CUBIN.
     * The options of a program can override the architecture. */
    const char *architecture;

    /* In-memory headers, and the names under which programs include them; copied. May be NULL if
     * header_count is 0. */
    size_t header_count;
    const char *const *header_names;
    const char *const *headers;

    const char *const *more; /* patterns of the names of further variables that decide a build
                                (KILN_KEY_ENV), ended by NULL; copied; NULL: none */
} kiln_nvrtc_device_params;

/* Creates a device for the ops. From then on, Kiln watches which files the libnvrtc reads. For
 * that, the libnvrtc and Kiln stay loaded.
 *
 * @params      read during the call; NULL: all defaults
 * @ret_device  [out] to be freed with kiln_nvrtc_device_free
 * @error       may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: there is no NVRTC, or no driver that knows
 * the context; KILN_E_NO_MEMORY. Threads: any. Blocks: on loading libraries. */
KILN_API kiln_status kiln_nvrtc_device_new(const kiln_nvrtc_device_params *params,
                                           kiln_nvrtc_device **ret_device, kiln_error *error);

/* Frees a device and sets the pointer to NULL. NULL and a pointer to NULL are allowed. Contexts,
 * programs and kernels that use the device must have been freed before. */
KILN_API void kiln_nvrtc_device_free(kiln_nvrtc_device **device);

/* Returns the ops for NVRTC devices. The ops are static. Their programs, as kiln_program_handle
 * returns them, can be passed to the calls below. Their kernels can be passed to cuLaunchKernel.
 * NVRTC sees a source as "program.cu" in the working directory.
 *
 * A description stands for the files that its program reads, as they are when the description is
 * made. Kiln learns which files these are when this process first builds or loads the program; a
 * description that was made earlier stands for the files as they are at that first build or load.
 * If the files change later, the description stays outdated, even if they change back. Making a
 * description examines every file that the program is known to read. If NVRTC can't be watched,
 * programs are built each time, and kiln_program_desc_get_caching reports that. */
KILN_API const kiln_device_ops *kiln_nvrtc_ops(void);

/* The outputs of a program. Each is what the NVRTC function of the same name returns. */
typedef enum kiln_nvrtc_output {
    KILN_NVRTC_LOG = 0,
    KILN_NVRTC_PTX = 1,
    KILN_NVRTC_CUBIN = 2,
    KILN_NVRTC_LTOIR = 3,
    KILN_NVRTC_OPTIXIR = 4,
    KILN_NVRTC_NVVM = 5
} kiln_nvrtc_output;

/* Returns an output of a program that was found or built, as the NVRTC function of that name would.
 * Texts include their terminating NUL.
 *
 * @program    a program of these ops: what kiln_program_handle returns, not the kiln_program
 * @output     a kiln_nvrtc_output
 * @ret_bytes  [out] valid as long as the program is; empty if NVRTC returns nothing
 * Returns KILN_OK; KILN_E_INVALID; KILN_MISS: this NVRTC has no such output. Threads: any. Blocks:
 * never. */
KILN_API kiln_status kiln_nvrtc_get_output(const void *program, uint32_t output,
                                           kiln_bytes *ret_bytes);

/* Returns the lowered name of an expression that the program's options named.
 *
 * @program     as for kiln_nvrtc_get_output
 * @expression  as in the options
 * @ret_name    [out] valid as long as the program is
 * Returns KILN_OK; KILN_E_INVALID; KILN_MISS: the options did not name it, or it is not valid.
 * Threads: any. Blocks: never. */
KILN_API kiln_status kiln_nvrtc_get_lowered_name(const void *program, const char *expression,
                                                 const char **ret_name);

/* Lists the files and paths that a result was made from. @entry must be an entry of NVRTC, as `kiln
 * run` and the ops store them. It contains one or more results of the same program, the newest
 * first. A later build finds the result if nothing in the list has changed and if the C library
 * still folds constants in the same way. This function does not report whether it does. Relative
 * paths start at the working directory. The program's folder is not known.
 *
 * @entry   borrowed; not NULL
 * @result  the number of the result, from 0
 * @visit   called for each read, on this thread
 * @user    passed to @visit; may be NULL
 * Returns KILN_OK; KILN_MISS: the entry contains fewer results; KILN_E_UNSUPPORTED: it is not an
 * entry of NVRTC, or has an earlier format, which is no longer used; KILN_E_CORRUPT, perhaps after
 * some calls of @visit; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files.
 */
KILN_API kiln_status kiln_nvrtc_each_read(const kiln_entry *entry, size_t result,
                                          kiln_read_fn visit, void *user);

#ifdef __cplusplus
}
#endif

#endif
