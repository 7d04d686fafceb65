/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/reads_of_programs.h"

#include <pthread.h>
#include <search.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct reading_program {
    cl_program program;
    kilni_text reads;
    const char *why;
} reading_program;

struct kilni_opencl_reads_of_programs {
    pthread_mutex_t lock; /* guards the tree */
    void *tree;           /* of reading_program, by the program's address */
};

static int compare(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t)((const reading_program *)a)->program;
    const uintptr_t second = (uintptr_t)((const reading_program *)b)->program;
    return first < second ? -1 : first > second;
}

static void free_program(void *program)
{
    reading_program *ending = program;
    if (ending) {
        kilni_text_done(&ending->reads);
        free(ending);
    }
}

kiln_status kilni_opencl_reads_of_programs_new(kilni_opencl_reads_of_programs **ret_all)
{
    kilni_opencl_reads_of_programs *all = calloc(1, sizeof *all);
    if (!all) {
        return KILN_E_NO_MEMORY;
    }
    pthread_mutex_init(&all->lock, NULL);
    *ret_all = all;
    return KILN_OK;
}

void kilni_opencl_reads_of_programs_free(kilni_opencl_reads_of_programs **all)
{
    if (*all) {
        tdestroy((*all)->tree, free_program);
        pthread_mutex_destroy(&(*all)->lock);
        free(*all);
        *all = NULL;
    }
}

kiln_status kilni_opencl_reads_of_programs_set(kilni_opencl_reads_of_programs *all,
                                               cl_program program, kilni_text *reads,
                                               const char *why)
{
    reading_program *added = calloc(1, sizeof *added);
    if (!added) {
        kilni_text_done(reads);
        return KILN_E_NO_MEMORY;
    }
    *added = (reading_program){program, *reads, why};
    *reads = (kilni_text){0};
    kilni_opencl_reads_of_programs_forget(all, program);
    pthread_mutex_lock(&all->lock);
    const int is_added = tsearch(added, &all->tree, compare) != NULL;
    pthread_mutex_unlock(&all->lock);
    if (!is_added) {
        free_program(added);
    }
    return is_added ? KILN_OK : KILN_E_NO_MEMORY;
}

kiln_status kilni_opencl_reads_of_programs_get(kilni_opencl_reads_of_programs *all,
                                               cl_program program, kilni_text *ret_reads)
{
    const reading_program wanted = {.program = program};
    kiln_status status = KILN_MISS;
    pthread_mutex_lock(&all->lock);
    reading_program **found = tfind(&wanted, &all->tree, compare);
    if (found) {
        const kilni_text *reads = &(*found)->reads;
        status = (*found)->why ? KILN_E_UNSUPPORTED
                               : kilni_text_append_bytes(ret_reads, reads->bytes, reads->length);
    }
    pthread_mutex_unlock(&all->lock);
    return status;
}

void kilni_opencl_reads_of_programs_forget(kilni_opencl_reads_of_programs *all, cl_program program)
{
    const reading_program wanted = {.program = program};
    pthread_mutex_lock(&all->lock);
    reading_program **found = tfind(&wanted, &all->tree, compare);
    reading_program *gone = found ? *found : NULL;
    if (gone) {
        tdelete(gone, &all->tree, compare);
    }
    pthread_mutex_unlock(&all->lock);
    free_program(gone);
}
