/* SPDX-License-Identifier: Apache-2.0 */
#include "answers.h"

#include <string.h>

#include "library.h"
#include "programs.h"

/* Returns the program's record if the layer answers for the program; NULL if NVRTC answers. */
static program_record *find_answered(kilni_nvrtc_program program)
{
    program_record *record = programs_find(program);
    return record && record->state == PROGRAM_LOADED ? record : NULL;
}

/* Returns the answer for one output; NULL if NVRTC must be asked. */
static const kilni_nvrtc_answer *find_answer(kilni_nvrtc_program program, kilni_nvrtc_output output)
{
    program_record *record = find_answered(program);
    if (record && !record->outputs.answers[output].is_known) {
        program_compile_late(record, "an output is requested that was not recorded");
        return NULL;
    }
    return record ? &record->outputs.answers[output] : NULL;
}

int answer_size(nvrtc_library *library, kilni_nvrtc_program program, kilni_nvrtc_output output,
                size_t *ret_size)
{
    const kilni_nvrtc_answer *answer = ret_size ? find_answer(program, output) : NULL;
    if (!answer) {
        return library_real(library)->size[output](program, ret_size);
    }
    if (answer->size_result == KILNI_NVRTC_SUCCESS) {
        *ret_size = (size_t)answer->size;
    }
    return answer->size_result;
}

int answer_get(nvrtc_library *library, kilni_nvrtc_program program, kilni_nvrtc_output output,
               char *bytes)
{
    const kilni_nvrtc_answer *answer = bytes ? find_answer(program, output) : NULL;
    if (!answer) {
        return library_real(library)->get[output](program, bytes);
    }
    if (answer->bytes.size > 0) {
        memcpy(bytes, answer->bytes.data, answer->bytes.size);
    }
    return answer->get_result;
}

int answer_lowered_name(nvrtc_library *library, kilni_nvrtc_program program, const char *expression,
                        const char **ret_name)
{
    const program_record *record = expression && ret_name ? find_answered(program) : NULL;
    if (!record) {
        return library_real(library)->lowered_name(program, expression, ret_name);
    }
    const kilni_nvrtc_name *name = kilni_nvrtc_outputs_name(&record->outputs, expression);
    if (!name && !library_runtime(library)->knows_errors) {
        program_compile_late(programs_find(program),
                             "the name of an unknown expression is requested");
        return library_real(library)->lowered_name(program, expression, ret_name);
    }
    const int result = name ? name->result : KILNI_NVRTC_NAME_NOT_VALID;
    *ret_name = result == KILNI_NVRTC_SUCCESS ? name->lowered : NULL; /* like NVRTC */
    return result;
}
