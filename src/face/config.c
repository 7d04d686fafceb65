/* SPDX-License-Identifier: Apache-2.0 */
#include "face/environment/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/params.h"
#include "base/size.h"

static const struct {
    const char *name;
    void (*read)(kilni_config_reader *reader);
} profiles[] = {
    [KILN_PROFILE_KILN] = {"kiln", kilni_config_read_kiln},
    [KILN_PROFILE_SYCL] = {"sycl", kilni_config_read_sycl},
    [KILN_PROFILE_ONEDNN] = {"onednn", kilni_config_read_onednn},
};

#define PROFILE_COUNT (sizeof profiles / sizeof profiles[0])

const char *kiln_profile_name(uint32_t profile)
{
    return profile < PROFILE_COUNT ? profiles[profile].name : NULL;
}

kiln_status kiln_profile_parse(const char *text, uint32_t *ret_profile)
{
    if (!ret_profile) {
        return KILN_E_INVALID;
    }
    for (uint32_t i = 0; text && i < PROFILE_COUNT; i++) {
        if (strcmp(text, profiles[i].name) == 0) {
            *ret_profile = i;
            return KILN_OK;
        }
    }
    return KILN_E_PARSE;
}

static const char *process_lookup(void *user, const char *name)
{
    (void)user;
    return secure_getenv(name);
}

/* Makes a NULL-ended list of strings that are stored one after another. */
static kiln_status list_strings(const kilni_text *strings, const char *const **ret_list)
{
    size_t count = 0;
    for (size_t at = 0; at < strings->length; at += strlen(strings->bytes + at) + 1) {
        count++;
    }
    const char **list = calloc(count + 1, sizeof *list);
    if (!list) {
        return KILN_E_NO_MEMORY;
    }
    count = 0;
    for (size_t at = 0; at < strings->length; at += strlen(strings->bytes + at) + 1) {
        list[count++] = strings->bytes + at;
    }
    *ret_list = list;
    return KILN_OK;
}

/* Fills the structure that the caller sees. */
static kiln_status show(kilni_config *config)
{
    config->shown = (kiln_config){
        .location = config->is_persistent && !config->disabled ? config->dir : NULL,
        .dir = config->dir,
        .max_bytes = config->store.max_bytes,
        .min_image_bytes = config->min_image_bytes,
        .max_image_bytes = config->max_image_bytes,
        .readonly = config->readonly,
        .disabled = config->disabled,
        .helper = config->helper,
        .last_miss = config->last_miss,
        .tool = config->tool,
        .trace = config->trace,
        .trace_events = config->trace_events,
        .stats = config->stats,
        .key_file = config->key_file,
    };
    const kiln_status status = list_strings(&config->key_variables, &config->shown.key_variables);
    return status == KILN_OK ? list_strings(&config->warnings, &config->shown.warnings) : status;
}

/* Derives what depends on several variables. */
static void settle(kilni_config_reader *reader)
{
    kilni_config *config = reader->config;
    if (config->disabled) {
        config->memory.flags |= KILN_CACHE_DISABLED;
    }
    if (config->trace_events && !config->trace && reader->status == KILN_OK) {
        config->trace = strdup("-");
        reader->status = config->trace ? KILN_OK : KILN_E_NO_MEMORY;
    }
    config->store.flags = (config->readonly ? KILN_STORE_READONLY : 0) |
                          (config->last_miss ? KILN_STORE_NOTE_MISSES : 0);
    config->store.key_file = config->key_file;
    if (reader->status == KILN_OK) {
        reader->status = show(config);
    }
}

kiln_status kiln_config_from_profile(uint32_t profile, kiln_lookup_fn lookup, void *user,
                                     kiln_config **ret_config)
{
    if (!ret_config || profile >= PROFILE_COUNT) {
        return KILN_E_INVALID;
    }
    kilni_config *config = calloc(1, sizeof *config);
    if (!config) {
        return KILN_E_NO_MEMORY;
    }
    config->store.struct_size = sizeof config->store;
    config->memory.struct_size = sizeof config->memory;
    config->max_image_bytes = KILN_UNLIMITED;
    kilni_config_reader reader = {
        .lookup = lookup ? lookup : process_lookup, .user = user, .config = config};
    profiles[profile].read(&reader);
    kilni_config_read_common(&reader);
    settle(&reader);
    kiln_config *shown = &config->shown;
    if (reader.status != KILN_OK) {
        kiln_config_free(&shown);
        return reader.status;
    }
    *ret_config = shown;
    return KILN_OK;
}

kiln_status kiln_config_from_env(kiln_lookup_fn lookup, void *user, kiln_config **ret_config)
{
    return kiln_config_from_profile(KILN_PROFILE_KILN, lookup, user, ret_config);
}

void kiln_config_free(kiln_config **config)
{
    if (!config || !*config) {
        return;
    }
    kilni_config *freed = (kilni_config *)*config;
    *config = NULL;
    free(freed->dir);
    free(freed->trace);
    free(freed->stats);
    free(freed->tool);
    free(freed->key_file);
    free(freed->compile_options);
    free(freed->link_options);
    free(freed->appended_compile);
    free(freed->appended_link);
    free((void *)(uintptr_t)freed->shown.key_variables);
    free((void *)(uintptr_t)freed->shown.warnings);
    kilni_text_done(&freed->key_variables);
    kilni_text_done(&freed->warnings);
    free(freed);
}

static const kilni_config *whole(const kiln_config *config)
{
    return (const kilni_config *)config;
}

kiln_status kiln_config_get_store(const kiln_config *config, kiln_store_params *ret_params)
{
    const bool is_done =
        config && ret_params &&
        kilni_params_copy_out(ret_params, &whole(config)->store, sizeof whole(config)->store);
    return is_done ? KILN_OK : KILN_E_INVALID;
}

kiln_status kiln_config_get_memory(const kiln_config *config, kiln_cache_params *ret_params)
{
    const bool is_done =
        config && ret_params &&
        kilni_params_copy_out(ret_params, &whole(config)->memory, sizeof whole(config)->memory);
    return is_done ? KILN_OK : KILN_E_INVALID;
}

kiln_status kiln_config_get_programs(const kiln_config *shown, kiln_program_context_params *params)
{
    if (!shown || !params) {
        return KILN_E_INVALID;
    }
    const kilni_config *config = whole(shown);
    kiln_program_context_params filled;
    if (kilni_params_copy(params, &filled, sizeof filled) != KILN_OK) {
        return KILN_E_INVALID;
    }
    filled.max_programs = config->memory.max_entries;
    filled.max_bytes = config->memory.max_bytes;
    filled.policy = config->memory.policy;
    filled.flags = config->memory.flags;
    filled.min_stored_bytes = config->min_image_bytes;
    filled.max_stored_bytes = config->max_image_bytes;
    filled.replaced = (kiln_build_options){config->compile_options, config->link_options};
    filled.appended = (kiln_build_options){config->appended_compile, config->appended_link};
    if (config->keeps_images_only) {
        filled.rules = KILN_RULES_IMAGES;
    }
    kilni_params_copy_out(params, &filled, sizeof filled);
    return KILN_OK;
}

kiln_status kiln_size_parse(const char *text, uint64_t *ret_bytes)
{
    return kilni_size_parse(text, ret_bytes);
}
