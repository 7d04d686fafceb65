/* SPDX-License-Identifier: Apache-2.0 */
#include "programs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/handle_map.h"
#include "../shared/trace.h"
#include "device/watch/changed_files.h"
#include "library.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static handle_map records; /* under the lock */

void programs_lock(void)
{
    pthread_mutex_lock(&lock);
}

void programs_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- texts ---- */

static kiln_status texts_append(program_texts *texts, const char *text)
{
    char **grown = realloc(texts->items, (texts->count + 1) * sizeof *grown);
    if (!grown) {
        return KILN_E_NO_MEMORY;
    }
    texts->items = grown;
    grown[texts->count] = strdup(text);
    if (!grown[texts->count]) {
        return KILN_E_NO_MEMORY;
    }
    texts->count++;
    return KILN_OK;
}

static kiln_status texts_copy(int count, const char *const *from, program_texts *to)
{
    kiln_status status = KILN_OK;
    for (int i = 0; i < count && status == KILN_OK; i++) {
        status = texts_append(to, from[i]);
    }
    return status;
}

static void texts_done(program_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        free(texts->items[i]);
    }
    free(texts->items);
    *texts = (program_texts){0};
}

static const char *const *texts_of(const program_texts *texts)
{
    return (const char *const *)texts->items;
}

/* ---- records ---- */

static void free_record(program_record *record)
{
    free(record->source);
    free(record->name);
    texts_done(&record->headers);
    texts_done(&record->header_names);
    texts_done(&record->expressions);
    texts_done(&record->options);
    kilni_nvrtc_outputs_done(&record->outputs);
    kiln_entry_release(&record->entry);
    free(record);
}

static kiln_status fill(program_record *record, const char *source, const char *name,
                        int header_count, const char *const *headers,
                        const char *const *header_names)
{
    record->source = strdup(source);
    record->name = name ? strdup(name) : NULL;
    if (!record->source || (name && !record->name)) {
        return KILN_E_NO_MEMORY;
    }
    record->place = library_runtime(record->library)->shares_between_folders ? record->name : NULL;
    const kiln_status status = texts_copy(header_count, headers, &record->headers);
    return status == KILN_OK ? texts_copy(header_count, header_names, &record->header_names)
                             : status;
}

void programs_add(nvrtc_library *library, kilni_nvrtc_program handle, const char *source,
                  const char *name, int header_count, const char *const *headers,
                  const char *const *header_names)
{
    program_record *record = calloc(1, sizeof *record);
    if (!record) {
        return;
    }
    record->library = library;
    record->handle = handle;
    kiln_status status = fill(record, source, name, header_count, headers, header_names);
    if (status == KILN_OK) {
        programs_lock();
        status = handle_map_put(&records, handle, record);
        programs_unlock();
    }
    if (status != KILN_OK) {
        free_record(record);
    }
}

program_record *programs_find(kilni_nvrtc_program handle)
{
    programs_lock();
    program_record *record = handle_map_get(&records, handle);
    programs_unlock();
    return record;
}

void programs_remove(kilni_nvrtc_program handle)
{
    programs_lock();
    program_record *record = handle_map_get(&records, handle);
    if (record) {
        handle_map_remove(&records, handle);
    }
    programs_unlock();
    if (record) {
        free_record(record);
    }
}

void program_add_expression(program_record *record, const char *expression)
{
    if (texts_append(&record->expressions, expression) != KILN_OK) {
        record->obstacle = "no memory for a name expression";
    }
}

kilni_inputs program_inputs(const program_record *record, int option_count,
                            const char *const *options)
{
    return (kilni_inputs){
        .compiler = library_runtime(record->library)->compiler,
        .source = record->source,
        .name = record->place,
        .header_count = record->headers.count,
        .headers = texts_of(&record->headers),
        .header_names = texts_of(&record->header_names),
        .expression_count = record->expressions.count,
        .expressions = texts_of(&record->expressions),
        .option_count = (size_t)option_count,
        .options = options,
    };
}

kiln_status program_set_loaded(program_record *record, const kiln_entry *entry, kiln_bytes reads,
                               const kilni_nvrtc_outputs *outputs, int option_count,
                               const char *const *options)
{
    const kiln_status status = texts_copy(option_count, options, &record->options);
    if (status != KILN_OK) {
        texts_done(&record->options);
        return status;
    }
    record->entry = kiln_entry_retain(entry);
    record->outputs = *outputs;
    record->reads = reads;
    record->mode = kilni_floating_point_get();
    record->state = PROGRAM_LOADED;
    return KILN_OK;
}

void program_compile_late(program_record *record, const char *why)
{
    if (record->is_at_nvrtc) {
        return;
    }
    record->is_at_nvrtc = 1;
    if (kilni_reads_hold(record->reads, record->place, NULL) != KILN_OK) {
        trace_passed("program loaded from the cache, not compiled since its files have changed",
                     why);
        return;
    }
    trace_passed("program loaded from the cache", why);
    const kilni_floating_point own_mode = kilni_floating_point_get();
    kilni_floating_point_set(record->mode);
    runtime_compile(library_real(record->library), record->handle, (int)record->options.count,
                    texts_of(&record->options));
    kilni_floating_point_set(own_mode);
}
