/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kiln/store.h>

#include "../capture/replay_request.h"
#include "../command/location.h"
#include "../replay/warmth.h"
#include "../store/tiers.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "doctor.h"

/* @path does not exist. Returns 0 if this process could create it, otherwise an errno. The answer
 * depends on the nearest existing folder above the path. */
static int error_of_making(const char *path)
{
    owned char *folder = must(strdup(path));
    int error = ENOENT;
    while (error == ENOENT) {
        char *slash = strrchr(folder, '/');
        if (slash == NULL) {
            break;
        }
        slash[slash == folder] = '\0';
        error = faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
    }
    return error;
}

static const char will_be_created[] = "will be created";

/* Returns the state of a store that does not exist. */
static const char *examine_missing(examination *doctor, const char *location)
{
    if (doctor->config->readonly || !is_plain_directory(location)) {
        return "missing";
    }
    int error = error_of_making(location);
    if (error == 0) {
        return will_be_created;
    }
    doctor_problem(doctor, "%s can't be created: %s", location, strerror(error));
    return "can't be created";
}

/* Examines the directories of a chain that do not exist. Returns true if a program would create one
 * of them.
 *
 * @tiers  the state of each of these directories is added to its object; empty if the chain could
 *         not be opened */
static bool examine_missing_tiers(examination *doctor, json_t *tiers)
{
    bool is_any_created = false;
    const char *others = doctor->directory;
    for (size_t i = 0; others != NULL; i++) {
        owned char *location = first_of_chain(others, &others);
        if (!is_plain_directory(location) || access(location, F_OK) == 0 || errno != ENOENT) {
            continue;
        }
        const char *state = examine_missing(doctor, location);
        is_any_created |= state == will_be_created;
        if (i < json_array_size(tiers)) {
            json_t *tier = json_array_get(tiers, i);
            json_add(tier, "state", json_text_or_null(state));
            json_add(tier, "outage", must(json_null()));
            json_add(tier, "retry_ns", must(json_null()));
        }
    }
    return is_any_created;
}

/* Directories into which a group may write are refused if they are named by their paths. */
static void note_group_directories(examination *doctor)
{
    const char *others = doctor->directory;
    while (others != NULL) {
        owned char *location = first_of_chain(others, &others);
        struct stat found;
        if (is_plain_directory(location) && stat(location, &found) == 0 && S_ISDIR(found.st_mode) &&
            (found.st_mode & (S_IWGRP | S_IWOTH)) == S_IWGRP) {
            doctor_note(doctor,
                        "a group may write to %s: to share it, name it group:%s, in a chain behind "
                        "a directory of your own; to keep it private, chmod g-w %s",
                        location, location, location);
        }
    }
}

/* Returns true if a location cannot be opened because of what it says. Nothing is created then, and
 * the location may contain a password. */
static bool is_misuse(kiln_status status)
{
    return status == KILN_E_PARSE || status == KILN_E_INVALID || status == KILN_E_UNSUPPORTED;
}

/* Reports the messages about those stores of a chain that are not used. */
static void take_warning(void *user, kiln_log_level level, const char *text)
{
    (void)level;
    doctor_problem(user, "%s", text);
}

/* How often a store of a cluster is asked, so that each of up to about 50 nodes gets a question. */
#define QUESTIONS_TO_CLUSTER 256u

/* Makes the key of a question. No entry has such a key. */
static kiln_key *question_key(unsigned number)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    char text[16];
    snprintf(text, sizeof text, "%u", number);
    if (kiln_key_builder_new(&builder) == KILN_OK &&
        kiln_key_builder_add_text(builder, "doctor", text) == KILN_OK) {
        kiln_key_builder_finish(builder, &key);
    }
    kiln_key_builder_free(&builder);
    return must(key);
}

/* Makes each store of a chain report what prevents it from answering, since opening a store does
 * not contact its server.
 *
 * @count  how many keys to ask for; they differ, so that different nodes of a cluster are asked */
static void ask(kiln_store *store, unsigned count)
{
    kiln_key *keys[QUESTIONS_TO_CLUSTER];
    kiln_status statuses[QUESTIONS_TO_CLUSTER];
    for (unsigned i = 0; i < count; i++) {
        keys[i] = question_key(i);
    }
    kiln_store_contains_many(store, (const kiln_key *const *)keys, count, statuses);
    for (unsigned i = 0; i < count; i++) {
        kiln_key_release(&keys[i]);
    }
}

static int find_replay(void *user, kiln_item *item)
{
    bool *has_found = user;
    kiln_entry *request = NULL;
    if (kiln_item_read(item, &request) == KILN_OK) {
        *has_found = replay_request_is(request);
        kiln_entry_release(&request);
    }
    return *has_found;
}

/* Reports how warm the cache is for drivers that have replaced others. Reads only the first store
 * of a chain, which is the one of this machine. */
static void report_warmth(examination *doctor, const kiln_store_params *params)
{
    const char *others = NULL;
    owned char *first = first_of_chain(doctor->directory, &others);
    kiln_store *store = NULL;
    if (is_plain_directory(first)) {
        const kiln_store_params reading = {.struct_size = sizeof reading,
                                           .flags = KILN_STORE_READONLY | KILN_STORE_NO_CREATE,
                                           .key_file = params->key_file};
        kiln_store_open(first, &reading, &store, NULL);
    }
    json_t *drivers = warmth_read(store);
    bool is_waiting = false;
    kiln_store_each_request(store, find_replay, &is_waiting);
    kiln_store_close(&store);
    for (size_t i = 0; i < json_array_size(drivers); i++) {
        const json_t *driver = json_array_get(drivers, i);
        const json_int_t programs = json_integer_value(json_object_get(driver, "programs"));
        const json_int_t ready = json_integer_value(json_object_get(driver, "ready"));
        if (ready < programs) {
            doctor_note(doctor,
                        "%s: of the %lld %s that older drivers have built, %lld %s there for this "
                        "one; %s",
                        json_string_value(json_object_get(driver, "driver")), programs,
                        noun_of((uint64_t)programs, "program", "programs"), ready,
                        noun_of((uint64_t)ready, "is", "are"),
                        is_waiting ? "the helper repeats the others in the background"
                                   : "kiln replay repeats the others, or says why it can't");
        }
    }
    json_add(doctor->report, "upgrades", drivers);
    json_add(doctor->report, "replay_waits", json_boolean(is_waiting));
}

/* Returns the state of the directory. */
static const char *examine_directory(examination *doctor)
{
    kiln_store_params params = {
        .struct_size = sizeof params,
        /* Opens the store as programs do, except that nothing is changed. */
        .flags = KILN_STORE_NO_CREATE | KILN_STORE_NO_TRIM_AT_CLOSE |
                 (doctor->config->readonly ? KILN_STORE_READONLY : 0),
        .log = {take_warning, doctor},
        .key_file = doctor->config->key_file,
        .credentials = doctor->config->credentials,
    };
    kiln_error error = {.struct_size = sizeof error};
    kiln_store *store = NULL;
    kiln_status status = kiln_store_open(doctor->directory, &params, &store, &error);
    const bool has_cluster = strstr(doctor->directory, "-cluster://") != NULL;
    ask(store, has_cluster ? QUESTIONS_TO_CLUSTER : 1);
    json_t *tiers = tiers_to_json(store);
    kiln_store_close(&store);
    note_group_directories(doctor);
    report_warmth(doctor, &params);
    const bool is_chain = strchr(doctor->directory, '|') != NULL;
    const bool is_any_created =
        is_chain && !is_misuse(status) && examine_missing_tiers(doctor, tiers);
    json_add(doctor->report, "tiers", tiers);
    if (is_any_created && status != KILN_OK) {
        return will_be_created;
    }
    if (status == KILN_MISS) {
        return is_chain ? "missing" : examine_missing(doctor, doctor->directory);
    }
    if (status != KILN_OK) {
        owned char *shown = shown_location(doctor->directory);
        doctor_problem(doctor, "%s is not used: %s", shown, error_text(&error, status));
        return "not used";
    }
    if (!doctor->config->readonly && is_plain_directory(doctor->directory) &&
        faccessat(AT_FDCWD, doctor->directory, W_OK | X_OK, AT_EACCESS) != 0) {
        doctor_problem(doctor, "%s can't be written: %s", doctor->directory, strerror(errno));
        return "can't be written";
    }
    return "used";
}

static void report_directory(examination *doctor)
{
    json_t *object = must(json_object());
    owned char *shown = doctor->directory == NULL ? NULL : shown_location(doctor->directory);
    json_add(object, "path", json_text_or_null(shown));
    const char *state = "none";
    if (doctor->directory == NULL) {
        doctor_problem(doctor, "no cache directory: set KILN_DIR or HOME");
    } else {
        state = examine_directory(doctor);
    }
    json_add(object, "state", json_text_or_null(state));
    json_add(doctor->report, "directory", object);
}

static void report_limits(examination *doctor)
{
    const kiln_config *config = doctor->config;
    json_add(doctor->report, "max_bytes", json_number(config->max_bytes));
    json_add(doctor->report, "readonly", json_boolean(config->readonly));
    json_add(doctor->report, "authenticated", json_boolean(config->key_file != NULL));
    json_add(doctor->report, "disabled", json_boolean(config->disabled));
    if (config->disabled) {
        doctor_note(doctor, "KILN_DISABLE is set: programs run without Kiln");
    }
    if (config->readonly) {
        doctor_note(doctor, "KILN_READONLY is set: nothing is stored");
    }
    if (config->max_bytes == 0) {
        doctor_note(doctor, "KILN_MAX_SIZE is 0: nothing is stored");
    }
}

static const char *const known_variables[] = {
    "KILN_DIR",
    "KILN_MAX_SIZE",
    "KILN_READONLY",
    "KILN_DISABLE",
    "KILN_TRACE",
    "KILN_STATS",
    "KILN_KEY_ENV",
    "KILN_HELPER",
    "KILN_REPLAY",
    "KILN_TOOL",
    "KILN_LAST_MISS",
    "KILN_JOURNAL",
    "KILN_RECORD",
    "KILN_FOLDERS",
    "KILN_FOLDERS_ASK",
    "KILN_SIGNING_KEY_FILE",
    "KILN_KEY_FILE",
    "KILN_HTTP_TOKEN_FILE",
    "KILN_SECRET_KEY_FILE",
    NULL,
};

/* Variables that decide where the store is, or which libraries the loader loads. None of them
 * contains a secret. */
static const char *const other_variables[] = {
    "XDG_CACHE_HOME",     "HOME",          "AWS_SHARED_CREDENTIALS_FILE", "AWS_REGION",
    "AWS_DEFAULT_REGION", "OPENCL_LAYERS", "OPENCL_LAYER_PATH",           "OCL_ICD_VENDORS",
    "OCL_ICD_FILENAMES",  "LD_PRELOAD",    "OPENCL_VENDOR_PATH",          NULL,
};

static void report_set(json_t *variables, const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *value = getenv(*names);
        if (value != NULL) {
            owned char *shown = shown_location(value);
            json_add(variables, *names, json_text_or_null(shown));
        }
    }
}

static bool is_known(const char *name, size_t length)
{
    for (const char *const *known = known_variables; *known != NULL; known++) {
        if (strlen(*known) == length && strncmp(*known, name, length) == 0) {
            return true;
        }
    }
    return false;
}

static void note_unknown_variables(examination *doctor)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        size_t length = strcspn(*variable, "=");
        if (strncmp(*variable, "KILN_", 5) == 0 && !is_known(*variable, length)) {
            doctor_note(doctor, "%.*s is set, but Kiln has no such variable", (int)length,
                        *variable);
        }
    }
}

static void report_variables(examination *doctor)
{
    json_t *variables = must(json_object());
    report_set(variables, known_variables);
    report_set(variables, other_variables);
    json_add(doctor->report, "variables", variables);
    const char *complaint;
    for (size_t i = 0; (complaint = doctor->config->warnings[i]) != NULL; i++) {
        doctor_problem(doctor, "%s", complaint);
    }
    note_unknown_variables(doctor);
}

void doctor_examine_cache(examination *doctor)
{
    report_directory(doctor);
    report_limits(doctor);
    report_variables(doctor);
}
