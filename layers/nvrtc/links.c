/* SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/handle_map.h"
#include "../shared/included_files.h"
#include "../shared/session.h"
#include "../shared/trace.h"
#include "base/error.h"
#include "device/floating_point.h"
#include "device/nvjitlink/link_key.h"
#include "device/nvjitlink/options.h"
#include "device/watch/changed_files.h"
#include "device/watch/results.h"
#include "device/watch/watch.h"
#include "os/clock.h"
#include "store/store.h"

#define CALL "nvJitLinkComplete"

/* How long to wait for a link in another process. That process may itself wait for this one before
 * it completes the link, as ranks of MPI do at a barrier. So each wait that was in vain halves the
 * next ones. */
#define LEASE_WAIT_NS (UINT64_C(60) * 1000000000)
static _Atomic unsigned waits_in_vain; /* relaxed: a thread that misses one waits longer */

typedef enum link_state {
    LINK_OPEN = 0, /* not completed */
    LINK_LOADED,   /* completed from the cache; the layer answers calls */
    LINK_NATIVE    /* nvJitLink answers all calls, and nothing is kept */
} link_state;

/* An input that the program added. */
typedef struct added_input {
    link_input input;   /* owns its texts and its data */
    kiln_key *accepted; /* the key under which to record that nvJitLink accepted the inputs up to
                           this one; NULL: the store has it */
} added_input;

struct link_record {
    linker_library *library;
    const linker_interface *interface;
    kilni_nvjitlink_handle handle;
    link_state state;

    kilni_floating_point mode; /* of the thread that created the link */
    kiln_key_builder *key;     /* of the inputs so far */
    kilni_text device;         /* for listings */
    added_input *inputs;
    size_t count;
    size_t given; /* the number of inputs that nvJitLink has; 0 as long as inputs are deferred */

    /* The program has added a file. It may change or remove the file at any time, so nvJitLink must
     * read it at once, and no input is deferred any more. */
    bool has_file;

    kiln_key *linked;           /* of a link of the inputs so far */
    kiln_entry *entry;          /* the store's entry of that link; NULL: none */
    kilni_stored_result result; /* in the entry */
    kilni_nvrtc_outputs outputs;

    kiln_lease *lease;
    bool is_counted;    /* in held_leases, until the link is complete, or given up */
    kilni_reads *reads; /* what nvJitLink has read; NULL: nothing, or memory ran out */
    kilni_folds *folds;
    uint64_t build_ns, wait_ns; /* spent in nvJitLink, and on waiting for other processes */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static handle_map records; /* under the lock */

/* The number of leases that this thread has taken for links that are not complete. A thread that
 * has one does not wait for another, so that no two threads wait for each other. */
static _Thread_local unsigned held_leases;

void links_lock(void)
{
    pthread_mutex_lock(&lock);
}

void links_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- records ---- */

/* The lease is no longer here if the writer releases it. */
static void release_lease(link_record *record)
{
    held_leases -= record->is_counted && held_leases > 0 ? 1 : 0;
    record->is_counted = false;
    if (record->lease) {
        kiln_lease_release(&record->lease);
    }
}

static void free_input(added_input *input)
{
    free((void *)(uintptr_t)input->input.name); /* NOLINT: the record owns these two */
    free((void *)(uintptr_t)input->input.data); /* NOLINT */
    kiln_key_release(&input->accepted);
}

static void free_record(link_record *record)
{
    release_lease(record);
    for (size_t i = 0; i < record->count; i++) {
        free_input(&record->inputs[i]);
    }
    free(record->inputs);
    kiln_key_builder_free(&record->key);
    kiln_key_release(&record->linked);
    kilni_nvrtc_outputs_done(&record->outputs);
    kiln_entry_release(&record->entry);
    kilni_reads_free(&record->reads);
    kilni_folds_free(&record->folds);
    kilni_text_done(&record->device);
    free(record);
}

link_record *link_find(kilni_nvjitlink_handle handle)
{
    links_lock();
    link_record *record = handle_map_get(&records, handle);
    links_unlock();
    return record;
}

/* nvJitLink may use the names of inputs until the link is destroyed, so the record is freed after
 * that. By then, a different thread may have got the same handle for a new link. */
int link_destroy(const linker_interface *interface, kilni_nvjitlink_handle *handle)
{
    link_record *record = NULL;
    if (handle && *handle) {
        links_lock();
        record = handle_map_get(&records, *handle);
        handle_map_remove(&records, *handle);
        links_unlock();
    }
    const int result = interface->real.destroy(handle);
    if (record) {
        free_record(record);
    }
    return result;
}

bool link_uses(const link_record *record, const linker_interface *interface)
{
    return record->interface == interface;
}

/* ---- passing through ---- */

static void note_passed(const char *why)
{
    const kiln_stats counted = {.passed_through = 1};
    session_count(&counted);
    trace_passed(CALL, why);
}

static int give_input(const link_record *record, const link_input *input)
{
    const kilni_nvjitlink_functions *real = &record->interface->real;
    return input->is_file
               ? real->add_file(record->handle, input->kind, input->name)
               : real->add_data(record->handle, input->kind, input->data, input->size, input->name);
}

/* Gives nvJitLink the deferred inputs. The cache has shown that nvJitLink accepts them. */
static void give_deferred(link_record *record)
{
    const kilni_floating_point own_mode = kilni_floating_point_get();
    kilni_floating_point_set(record->mode);
    while (record->given < record->count) {
        give_input(record, &record->inputs[record->given++].input);
    }
    kilni_floating_point_set(own_mode);
}

/* Links once more at nvJitLink, for a call that only nvJitLink can answer. If files have changed,
 * nvJitLink would make a different result. In that case, it answers as for a link that was not
 * completed. */
static void link_late(link_record *record)
{
    if (kilni_reads_hold(record->result.reads, NULL, NULL) == KILN_OK) {
        const kilni_floating_point own_mode = kilni_floating_point_get();
        give_deferred(record);
        kilni_floating_point_set(record->mode);
        record->interface->real.complete(record->handle);
        kilni_floating_point_set(own_mode);
    }
}

void link_give_up(link_record *record, const char *why)
{
    if (record->state == LINK_LOADED) {
        trace_passed("link loaded from the cache", why);
        link_late(record);
    } else if (record->state == LINK_OPEN) {
        note_passed(why);
        give_deferred(record);
    }
    record->state = LINK_NATIVE;
    release_lease(record);
}

/* ---- creating ---- */

static bool is_well_formed(uint32_t count, const char *const *options)
{
    bool is = count == 0 || options;
    for (uint32_t i = 0; is && i < count; i++) {
        is = options[i] != NULL;
    }
    return is;
}

/* Versions before 12.9 do not use the driver's cache, and lack the option that bypasses it. */
static bool uses_drivers_cache(const linker_library *library)
{
    unsigned major = 0, minor = 0;
    return linker_version(library)(&major, &minor) == KILNI_NVJITLINK_SUCCESS &&
           (major > 12 || (major == 12 && minor >= 9));
}

/* Creates a link that does not use the driver's cache, whose results do not depend on the
 * floating-point mode. Returns nvJitLink's result. */
static int create_uncached(const linker_library *library, const linker_interface *interface,
                           kilni_nvjitlink_handle *handle, uint32_t count,
                           const char *const *options)
{
    const char **all = malloc(((size_t)count + 1) * sizeof *all);
    if (!all || !uses_drivers_cache(library)) {
        free(all);
        return interface->real.create(handle, count, options);
    }
    if (count > 0) {
        memcpy(all, options, count * sizeof *all);
    }
    all[count] = "-no-cache";
    const int result = interface->real.create(handle, count + 1, all);
    free(all);
    return result == KILNI_NVJITLINK_UNRECOGNIZED_OPTION
               ? interface->real.create(handle, count, options)
               : result;
}

/* "nvJitLink 13.0 sm_90" */
static kiln_status describe_device(link_record *record, uint32_t count, const char *const *options)
{
    unsigned major = 0, minor = 0;
    linker_version(record->library)(&major, &minor);
    kiln_status status = kilni_text_printf(&record->device, "nvJitLink %u.%u", major, minor);
    for (uint32_t i = 0; i < count && status == KILN_OK; i++) {
        static const char arch[] = "-arch=";
        if (strncmp(options[i], arch, sizeof arch - 1) == 0) {
            status = kilni_text_printf(&record->device, " %.32s", options[i] + sizeof arch - 1);
        }
    }
    return status;
}

/* Returns why links cannot be cached at all; NULL if they can. */
static const char *refusal(const linker_library *library)
{
    if (session_is_forked()) {
        return "the process is a forked child";
    }
    if (!session_requests()) {
        return "no memory for the cache";
    }
    if (!session_requests()->store) {
        return "there is no store";
    }
    return linker_is_opaque(library) ? "an unknown function of nvJitLink was called" : NULL;
}

static void add_record(linker_library *library, const linker_interface *interface,
                       kilni_nvjitlink_handle handle, uint32_t count, const char *const *options)
{
    link_record *record = calloc(1, sizeof *record);
    if (!record) {
        return;
    }
    record->library = library;
    record->interface = interface;
    record->handle = handle;
    record->mode = kilni_floating_point_get();
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status =
        kilni_nvjitlink_key_begin(linker_version(library), interface->release, count, options,
                                  session_config()->key_variables, &record->key, &error);
    if (status == KILN_OK) {
        status = describe_device(record, count, options);
    }
    if (status == KILN_OK) {
        links_lock();
        status = handle_map_put(&records, handle, record);
        links_unlock();
    }
    if (status != KILN_OK) {
        note_passed(error.text[0] ? error.text : kiln_status_text(status));
        free_record(record);
    }
}

int link_create(linker_library *library, const linker_interface *interface,
                kilni_nvjitlink_handle *handle, uint32_t option_count, const char *const *options)
{
    if (!handle || !is_well_formed(option_count, options)) {
        return interface->real.create(handle, option_count, options);
    }
    const char *why = kilni_nvjitlink_options_refusal(option_count, options);
    why = why ? why : refusal(library);
    if (why) {
        note_passed(why);
        return interface->real.create(handle, option_count, options);
    }
    const int result = create_uncached(library, interface, handle, option_count, options);
    if (result == KILNI_NVJITLINK_SUCCESS) {
        add_record(library, interface, *handle, option_count, options);
    }
    return result;
}

/* ---- looking up ---- */

/* Looks for an entry whose files and constants are unchanged. Returns KILN_OK or KILN_MISS.
 *
 * @ret_entry  [out] on KILN_OK, the entry, in which @ret_result points */
static kiln_status find_entry(const link_record *record, const kiln_key *key,
                              kiln_entry **ret_entry, kilni_stored_result *ret_result)
{
    const kilni_request_context *context = session_requests();
    kiln_entry *entry = NULL;
    const char *changed = NULL;
    size_t fill = 0;
    kiln_status status = kilni_store_find(context->store, key, record->lease, false, &entry, &fill);
    if (status != KILN_OK) {
        return KILN_MISS;
    }
    status = kilni_results_find(entry, NULL, ret_result, &changed);
    if (status == KILN_OK) {
        kilni_writer_fill(context->writer, fill, key, entry);
        *ret_entry = entry;
        return KILN_OK;
    }
    if (changed) {
        trace_changed(key, changed);
    }
    if (status != KILN_MISS && status != KILN_E_NO_MEMORY) {
        kilni_store_remove_judged(context->store, key, entry);
    }
    kiln_entry_release(&entry);
    return KILN_MISS;
}

/* Looks for the link of the inputs so far. */
static bool find_linked(link_record *record)
{
    kiln_entry_release(&record->entry);
    return find_entry(record, record->linked, &record->entry, &record->result) == KILN_OK;
}

/* Returns true if the cache shows that nvJitLink accepts the inputs so far. */
static bool is_accepted(link_record *record)
{
    kiln_key **accepted = &record->inputs[record->count - 1].accepted;
    kiln_entry *entry = NULL;
    kilni_stored_result unused;
    if (find_linked(record)) {
        return true;
    }
    if (find_entry(record, *accepted, &entry, &unused) != KILN_OK) {
        return false;
    }
    kiln_entry_release(&entry);
    kiln_key_release(accepted);
    return true;
}

static kiln_status ask_for_lease(link_record *record, uint64_t wait_ns)
{
    const kilni_request_context *context = session_requests();
    return kilni_store_lease(context->store, record->linked,
                             kilni_writer_mean_build_ns(context->writer), wait_ns, &record->lease);
}

/* Asks for the lease, and waits for it if @left_ns allows. Then looks in the store again, with
 * @look, because the last holder of the lease might have stored the link. Returns true if @look
 * found something. */
static bool take_once(link_record *record, bool (*look)(link_record *record), uint64_t *left_ns)
{
    if (ask_for_lease(record, 0) == KILN_BUSY && *left_ns > 0) {
        const uint64_t start_ns = kilni_clock_ns();
        if (ask_for_lease(record, *left_ns) == KILN_BUSY) {
            atomic_fetch_add_explicit(&waits_in_vain, 1, memory_order_relaxed);
        }
        const uint64_t waited_ns = kilni_clock_ns() - start_ns;
        record->wait_ns += waited_ns;
        *left_ns -= waited_ns < *left_ns ? waited_ns : *left_ns;
    }
    return look(record);
}

/* Makes this process the only one that gives these inputs to nvJitLink, until the link's result is
 * stored. If it waited too long, or the store has no leases, it goes on without one. Returns true
 * if @look found something meanwhile. */
static bool take_lease(link_record *record, bool (*look)(link_record *record))
{
    const unsigned in_vain = atomic_load_explicit(&waits_in_vain, memory_order_relaxed);
    uint64_t left_ns = held_leases > 0 || in_vain > 63 ? 0 : LEASE_WAIT_NS >> in_vain;
    bool is_found = take_once(record, look, &left_ns);
    while (!is_found && record->lease && record->lease->is_shared) {
        kiln_lease_release(&record->lease);
        is_found = take_once(record, look, &left_ns);
    }
    if (is_found) {
        kiln_lease_release(&record->lease);
    }
    if (record->lease && !record->is_counted) {
        record->is_counted = true;
        held_leases++;
    }
    return is_found;
}

/* ---- linking ---- */

static void begin_watching(link_record *record)
{
    if (record->given == 0 && !record->reads &&
        (kilni_reads_new(NULL, &kilni_clock_words, &record->reads) != KILN_OK ||
         kilni_folds_new(&record->folds) != KILN_OK)) {
        kilni_reads_free(&record->reads);
    }
}

/* Calls nvJitLink, for an input or, if @input is NULL, to complete the link, and watches it. */
static int call_watched(link_record *record, const link_input *input)
{
    kilni_watch watch;
    int result = 0;
    const uint64_t start_ns = kilni_clock_ns();
    begin_watching(record);
    if (record->reads && kilni_watch_begin(&watch, linker_watched(record->library), record->reads,
                                           record->folds) != KILN_OK) {
        kilni_reads_free(&record->reads);
    }
    if (record->reads) {
        pthread_cleanup_push(kilni_watch_end, &watch);
        result =
            input ? give_input(record, input) : record->interface->real.complete(record->handle);
        pthread_cleanup_pop(1);
    } else {
        result =
            input ? give_input(record, input) : record->interface->real.complete(record->handle);
    }
    record->build_ns += kilni_clock_ns() - start_ns;
    return result;
}

/* Gives nvJitLink the inputs that it does not have. Returns its result for the last one that it
 * got. */
static int give_all(link_record *record)
{
    int result = KILNI_NVJITLINK_SUCCESS;
    while (record->given < record->count && result == KILNI_NVJITLINK_SUCCESS) {
        result = call_watched(record, &record->inputs[record->given].input);
        record->given++;
    }
    if (result != KILNI_NVJITLINK_SUCCESS) {
        kilni_nvjitlink_note_failure();
        record->state = LINK_NATIVE;
        note_passed("nvJitLink refuses an input");
        release_lease(record);
    }
    return result;
}

/* Copies an input, and appends it to the key. */
static kiln_status append_input(link_record *record, const link_input *input)
{
    added_input *grown = realloc(record->inputs, (record->count + 1) * sizeof *grown);
    if (!grown) {
        return KILN_E_NO_MEMORY;
    }
    record->inputs = grown;
    added_input *added = &grown[record->count];
    *added = (added_input){.input = {.kind = input->kind,
                                     .is_file = input->is_file,
                                     .name = input->name ? strdup(input->name) : NULL,
                                     .data = input->is_file ? NULL : malloc(input->size),
                                     .size = input->size}};
    kiln_key_release(&record->linked);
    kiln_entry_release(&record->entry);
    kiln_status status = KILN_E_NO_MEMORY;
    if ((added->input.name || !input->name) && (added->input.data || input->is_file)) {
        if (!input->is_file) {
            memcpy((void *)(uintptr_t)added->input.data, input->data, input->size); /* NOLINT */
        }
        status = input->is_file
                     ? kilni_nvjitlink_key_add_file(record->key, input->kind, input->name)
                     : kilni_nvjitlink_key_add_data(record->key, input->kind, input->data,
                                                    input->size, input->name);
    }
    if (status == KILN_OK) {
        status = kilni_nvjitlink_key_finish(record->key, &record->linked, &added->accepted);
    }
    if (status != KILN_OK) {
        free_input(added);
        return status;
    }
    record->count++;
    return KILN_OK;
}

/* Returns why an open link must be nvJitLink's alone from now on; NULL: it need not. */
static const char *find_obstacle(const link_record *record)
{
    return kilni_floating_point_equals(record->mode, kilni_floating_point_get())
               ? refusal(record->library)
               : "the floating-point mode has changed";
}

/* Returns true if the layer can serve a call for a link that is not completed. Otherwise, the link
 * is nvJitLink's alone. */
static bool is_served(link_record *record)
{
    const char *why = "a link that was completed is changed or completed again";
    if (record->state == LINK_OPEN) {
        why = find_obstacle(record);
    }
    if (why) {
        link_give_up(record, why);
    }
    return record->state == LINK_OPEN;
}

bool link_add(link_record *record, const link_input *input, int *ret_result)
{
    if (!is_served(record)) {
        return false;
    }
    const bool is_usable = input->is_file ? input->name != NULL : input->data && input->size > 0;
    if (!is_usable || append_input(record, input) != KILN_OK) {
        link_give_up(record, !is_usable       ? "an input is empty"
                             : input->is_file ? "a file cannot be read"
                                              : "no memory for an input");
        return false;
    }
    record->has_file |= input->is_file;
    if (record->has_file) {
        kiln_key_release(&record->inputs[record->count - 1].accepted);
    }
    const bool is_deferred = record->given == 0 && !record->has_file &&
                             (is_accepted(record) || take_lease(record, is_accepted));
    *ret_result = is_deferred ? KILNI_NVJITLINK_SUCCESS : give_all(record);
    return true;
}

/* ---- keeping a result ---- */

/* The names of the inputs. */
static kiln_status describe_inputs(const link_record *record, size_t count, kilni_text *name)
{
    kiln_status status = kilni_text_append(name, "");
    for (size_t i = 0; i < count && status == KILN_OK && name->length < 200; i++) {
        const char *of_input = record->inputs[i].input.name;
        status = kilni_text_printf(name, "%s%s", i > 0 ? " " : "", of_input ? of_input : "?");
    }
    return status;
}

static kiln_status put_entry(link_record *record, const kiln_key *key, size_t input_count,
                             const kilni_stored_result *made, kiln_lease **lease)
{
    kilni_text answers = {0}, payload = {0}, name = {0};
    kiln_entry *entry = NULL;
    kiln_status status = kilni_results_encode(made, NULL, &answers, &payload);
    if (status == KILN_OK) {
        status = describe_inputs(record, input_count, &name);
    }
    if (status == KILN_OK) {
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = key,
            .kind = KILN_ENTRY_PROGRAM,
            .provenance = {.struct_size = sizeof params.provenance,
                           .device = record->device.bytes,
                           .name = name.bytes,
                           .build_ns = record->build_ns},
            .answers = {answers.bytes, answers.length},
            .payload = {payload.bytes, payload.length},
        };
        status = kiln_entry_new(&params, &entry);
    }
    if (status == KILN_OK) {
        status = kilni_writer_put(session_requests()->writer, entry, lease);
    }
    kiln_entry_release(&entry);
    kilni_text_done(&answers);
    kilni_text_done(&payload);
    kilni_text_done(&name);
    return status;
}

/* Stores the link, and then what shows that its inputs are accepted, so that a process that finds
 * the latter finds the link too. The lease ends when the last of these entries is stored. */
static void put_entries(link_record *record, const kilni_stored_result *made)
{
    const kilni_stored_result without = {.reads = made->reads, .folds = made->folds};
    size_t left = 0;
    for (size_t i = 0; i + 1 < record->count; i++) {
        left += record->inputs[i].accepted ? 1 : 0;
    }
    put_entry(record, record->linked, record->count, made, left == 0 ? &record->lease : NULL);
    for (size_t i = 0; i + 1 < record->count; i++) {
        const kiln_key *accepted = record->inputs[i].accepted;
        if (accepted) {
            put_entry(record, accepted, i + 1, &without, --left == 0 ? &record->lease : NULL);
        }
    }
}

/* Returns why the result cannot be stored; NULL if it can. */
static const char *finish_watched(link_record *record, kilni_text *reads, kilni_text *folds)
{
    kilni_words words = {.list = &kilni_clock_words};
    const char *why = "no memory for what nvJitLink reads and folds";
    if (record->reads && record->folds &&
        kilni_reads_finish(record->reads, false, &words, reads, &why) == KILN_OK &&
        kilni_folds_finish(record->folds, folds, &why) == KILN_OK) {
        why = linker_is_opaque(record->library) ? "an unknown function of nvJitLink was called"
                                                : kilni_nvjitlink_options_refusal(0, NULL);
    }
    return why;
}

static void keep_inputs(const link_record *record, kiln_bytes reads)
{
    included_files_keep(reads, NULL);
    for (size_t i = 0; i < record->count; i++) {
        const link_input *input = &record->inputs[i].input;
        if (!input->is_file) {
            included_files_keep_input((kiln_bytes){input->data, input->size});
        }
    }
}

static void keep(link_record *record)
{
    kilni_text reads = {0}, folds = {0}, outputs = {0}, code = {0};
    bool moves;
    const char *why = finish_watched(record, &reads, &folds);
    if (!why &&
        kilni_nvrtc_outputs_take(&record->interface->real.get, (kilni_nvrtc_program)record->handle,
                                 NULL, false, 0, NULL, &outputs, &code, &moves) != KILN_OK) {
        why = "an output cannot be stored";
    }
    if (why) {
        trace_passed("result of " CALL, why);
    } else {
        const kilni_stored_result made = {.reads = {reads.bytes, reads.length},
                                          .folds = {folds.bytes, folds.length},
                                          .outputs = {outputs.bytes, outputs.length},
                                          .code = {code.bytes, code.length}};
        put_entries(record, &made);
        keep_inputs(record, made.reads);
    }
    kilni_text_done(&reads);
    kilni_text_done(&folds);
    kilni_text_done(&outputs);
    kilni_text_done(&code);
}

/* ---- completing ---- */

/* Notes a hit, a build or a failed build for the journal. */
static void note_event(const link_record *record, kiln_journal_kind kind, uint64_t saved_ns)
{
    const bool is_hit = kind == KILN_JOURNAL_HIT;
    kilni_text name = {0};
    if (!is_hit) {
        describe_inputs(record, record->count, &name);
    }
    const kiln_journal_event event = {
        .kind = kind,
        .count = 1,
        .digest = kiln_key_digest(record->linked),
        .store = is_hit ? KILN_OK : KILN_MISS,
        .build_ns = is_hit ? 0 : record->build_ns,
        .wait_ns = record->wait_ns,
        .saved_ns = saved_ns,
        .device = is_hit ? "" : record->device.bytes,
        .name = name.bytes,
    };
    kilni_writer_note(session_requests()->writer, &event);
    kilni_text_done(&name);
}

static bool load(link_record *record)
{
    const uint64_t start_ns = kilni_clock_ns();
    const kiln_status status = kilni_nvrtc_outputs_decode(
        record->result.outputs, record->result.code, NULL, &record->outputs);
    if (status != KILN_OK) {
        if (status == KILN_E_CORRUPT) {
            kilni_store_remove_judged(session_requests()->store, record->linked, record->entry);
        }
        return false;
    }
    const kilni_request_result result = {.source = KILNI_FROM_STORE,
                                         .load_ns = kilni_clock_ns() - start_ns,
                                         .wait_ns = record->wait_ns};
    const uint64_t build_ns = kiln_entry_provenance(record->entry).build_ns;
    const kiln_stats counted = {
        .hits_store = 1, .saved_ns = build_ns, .waits = record->wait_ns > 0 ? 1 : 0};
    session_count(&counted);
    note_event(record, KILN_JOURNAL_HIT, build_ns);
    trace_request("nvjitlink", record->linked, &result, KILN_OK);
    record->state = LINK_LOADED;
    return true;
}

static int build(link_record *record)
{
    int status = give_all(record);
    if (status != KILNI_NVJITLINK_SUCCESS) {
        return status;
    }
    status = call_watched(record, NULL);
    const bool is_linked = status == KILNI_NVJITLINK_SUCCESS;
    const kilni_request_result result = {.source = KILNI_FROM_BUILD,
                                         .build_ns = record->build_ns,
                                         .wait_ns = record->wait_ns,
                                         .store = KILN_MISS};
    const kiln_stats counted = {.builds = 1,
                                .misses = 1,
                                .build_ns = record->build_ns,
                                .failures = is_linked ? 0 : 1,
                                .waits = record->wait_ns > 0 ? 1 : 0};
    session_count(&counted);
    note_event(record, is_linked ? KILN_JOURNAL_BUILD : KILN_JOURNAL_FAILURE, 0);
    trace_request("nvjitlink", record->linked, &result, is_linked ? KILN_OK : KILN_E_BUILD);
    kiln_store_note_miss(session_requests()->store, record->linked);
    if (is_linked) {
        keep(record);
    } else {
        kilni_nvjitlink_note_failure();
    }
    record->state = LINK_NATIVE;
    release_lease(record);
    return status;
}

bool link_complete(link_record *record, int *ret_result)
{
    if (!is_served(record)) {
        return false;
    }
    if (record->count == 0) {
        link_give_up(record, "nothing is linked");
        return false;
    }
    const bool may_be_found = record->given == 0 || (record->has_file && !record->lease);
    const bool is_found =
        may_be_found && (record->entry || take_lease(record, find_linked)) && load(record);
    *ret_result = is_found ? KILNI_NVJITLINK_SUCCESS : build(record);
    return true;
}

/* ---- outputs ---- */

/* Returns NULL if nvJitLink must be asked. */
static const kilni_nvrtc_answer *find_answer(link_record *record, kilni_nvrtc_output output)
{
    const kilni_nvrtc_answer *answer = &record->outputs.answers[output];
    if (record->state == LINK_LOADED && answer->is_known) {
        return answer;
    }
    if (record->state == LINK_LOADED || record->given < record->count) {
        link_give_up(record, record->state == LINK_LOADED
                                 ? "an output is requested that was not recorded"
                                 : "an output is requested before the link is complete");
    }
    return NULL;
}

bool link_answer_size(link_record *record, kilni_nvrtc_output output, size_t *size, int *ret_result)
{
    const kilni_nvrtc_answer *answer = find_answer(record, output);
    if (!answer || !size) {
        return false;
    }
    if (answer->size_result == KILNI_NVJITLINK_SUCCESS) {
        *size = (size_t)answer->size;
    }
    *ret_result = answer->size_result;
    return true;
}

bool link_answer_get(link_record *record, kilni_nvrtc_output output, char *bytes, int *ret_result)
{
    const kilni_nvrtc_answer *answer = find_answer(record, output);
    if (!answer || !bytes) {
        return false;
    }
    if (answer->bytes.size > 0) {
        memcpy(bytes, answer->bytes.data, answer->bytes.size);
    }
    *ret_result = answer->get_result;
    return true;
}
