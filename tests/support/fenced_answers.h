/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries in which only the answers and the log may be read: AddressSanitizer reports a read of any
 * other byte. fenced_answers_are_inside reads everything in decoded answers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/entry.h>

#include "device/opencl/answers.h"

#if defined(__SANITIZE_ADDRESS__)
#define FENCE_IS_HERE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FENCE_IS_HERE 1
#endif
#endif
#ifdef FENCE_IS_HERE
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
#endif

/* Poisons the bytes from the end of a section to the beginning of the next one, or to the end of
 * the entry. An empty section is skipped, because its address may be anywhere. */
static inline void fence_after(const kiln_entry *entry, kiln_bytes section)
{
    if (section.size == 0) {
        return;
    }
    const kiln_bytes all = kiln_entry_encoding(entry), answers = kiln_entry_answers(entry),
                     log = kiln_entry_log(entry);
    const char *start = (const char *)section.data + section.size;
    const char *end = (const char *)all.data + all.size;
    const kiln_bytes sections[] = {answers, log};
    for (size_t i = 0; i < 2; i++) {
        const char *next = sections[i].data;
        if (sections[i].size > 0 && next >= start && next < end) {
            end = next;
        }
    }
    ASAN_POISON_MEMORY_REGION(start, (size_t)(end - start));
}

/* Returns NULL if the entry can't be made. */
static inline kiln_entry *fenced_entry_new(const void *answers, size_t size, const char *log,
                                           size_t log_size)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    if (kiln_key_builder_new(&builder) == KILN_OK) {
        kiln_key_builder_finish(builder, &key);
    }
    kiln_key_builder_free(&builder);
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance.struct_size = sizeof params.provenance,
        .answers = {answers, size},
        .log = {log, log_size},
        .payload = {"payload", 7},
    };
    if (key && kiln_entry_new(&params, &entry) == KILN_OK) {
        fence_after(entry, kiln_entry_answers(entry));
        fence_after(entry, kiln_entry_log(entry));
    }
    kiln_key_release(&key);
    return entry;
}

/* Makes all bytes readable again, and releases the reference. */
static inline void fenced_entry_release(kiln_entry **entry)
{
    const kiln_bytes all = kiln_entry_encoding(*entry);
    ASAN_UNPOISON_MEMORY_REGION(all.data, all.size);
    kiln_entry_release(entry);
}

static inline bool fenced_answer_is_inside(const kilni_opencl_answer *answer, kiln_bytes bounds)
{
    if (answer->value.size == 0) {
        return true;
    }
    if (answer->value.size > bounds.size) {
        return false;
    }
    /* Reads every byte of the answer, as an application does, into a buffer of exactly the answer's
     * size, so that AddressSanitizer reports an access beyond its end. */
    void *room = malloc(answer->value.size);
    size_t size = 0;
    const bool is_given =
        room && kilni_opencl_return_info(answer->value.data, answer->value.size, answer->value.size,
                                         room, &size) == CL_SUCCESS;
    free(room);
    return is_given && size == answer->value.size;
}

static inline bool fenced_kernel_is_inside(const kilni_opencl_answers *answers, const char *kernel,
                                           kiln_bytes bounds)
{
    static const cl_kernel_arg_info questions[] = {
        CL_KERNEL_ARG_ADDRESS_QUALIFIER, CL_KERNEL_ARG_ACCESS_QUALIFIER, CL_KERNEL_ARG_TYPE_NAME,
        CL_KERNEL_ARG_TYPE_QUALIFIER, CL_KERNEL_ARG_NAME};
    kilni_opencl_answer answer;
    if (kilni_opencl_answers_attributes(answers, kernel, &answer) == KILN_OK &&
        !fenced_answer_is_inside(&answer, bounds)) {
        return false;
    }
    for (cl_uint i = 0; i < 64; i++) {
        for (size_t q = 0; q < sizeof questions / sizeof questions[0]; q++) {
            if (kilni_opencl_answers_argument(answers, kernel, i, questions[q], &answer) ==
                    KILN_OK &&
                !fenced_answer_is_inside(&answer, bounds)) {
                return false;
            }
        }
    }
    return true;
}

/* Queries everything about the kernels that the tests record. Returns false if an answer is not
 * inside the entry's section of answers. */
static inline bool fenced_answers_are_inside(const kilni_opencl_answers *answers,
                                             const kiln_entry *entry)
{
    const kiln_bytes bounds = kiln_entry_answers(entry);
    const kilni_opencl_answer log = kilni_opencl_answers_log(answers);
    static const char *const names[] = {"scale", "scale_all", "s", ""};
    bool are_inside = log.status == CL_SUCCESS &&
                      log.value.size == kiln_entry_log(entry).size + 1 &&
                      ((const char *)log.value.data)[log.value.size - 1] == '\0';
    for (size_t i = 0; are_inside && i < sizeof names / sizeof names[0]; i++) {
        are_inside = fenced_kernel_is_inside(answers, names[i], bounds);
    }
    return are_inside;
}
