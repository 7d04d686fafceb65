/* SPDX-License-Identifier: Apache-2.0
 *
 * A compile that the cache knew: the application has its answer, and the driver has not compiled.
 * A link that is found needs no more. What only the driver's own object can serve makes the driver
 * compile after all.
 *
 * What an entry of a compile holds is its log. The other answers follow from the call: success, the
 * options as they were given, a compiled object. A compile that answers otherwise is not kept.
 */
#pragma once

#include <pthread.h>

#include <CL/cl_icd.h>

#include <kiln/entry.h>

#include "compile_inputs.h"
#include "records.h"

struct deferred_compile {
    compile_inputs inputs;
    char **logs; /* one for each device */

    /* Held while the driver compiles after all, so that it does so once, and that all who need it
     * wait. Outside of all other locks. */
    pthread_mutex_t lock;
    _Atomic unsigned holds; /* the last release (acq_rel) frees; a hold is taken under the lock of
                               the records */
};

/* Makes the entry of what the driver compiled for one of the inputs' devices. KILN_OK;
 * KILN_E_UNSUPPORTED: it doesn't answer as a deferred compile would; KILN_E_NO_MEMORY. */
kiln_status deferred_compile_capture(const compile_inputs *inputs, cl_program program,
                                     cl_device_id device, const kiln_key *key, uint64_t build_ns,
                                     kiln_entry **ret_entry);

/* Makes one of entries, one for each device of the inputs. On success takes over what @inputs
 * holds. KILN_OK; KILN_E_NO_MEMORY. */
kiln_status deferred_compile_new(compile_inputs *inputs, const kiln_entry *const *entries,
                                 deferred_compile **ret_deferred);
void deferred_compile_release(deferred_compile *held);

/* Answers a query of a build. 0: only the driver's own object can. */
int deferred_compile_answer(const deferred_compile *of, cl_device_id device,
                            cl_program_build_info what, size_t room, void *ret_value,
                            size_t *ret_size, cl_int *ret_error);

/* Makes the driver compile what a program's deferred compile stands for, if it has one. Included
 * files may have changed meanwhile: then the driver compiles what they are now, and links of the
 * program go by that. */
void compile_natively(program_record *record, const char *why);
void compile_natively_of(cl_program program, const char *why);
