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

/* What follows from all that was read. */
static void settle(kilni_config_reader *reader)
{
    kiln_config *config = reader->config;
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
}

kiln_status kiln_config_from_profile(uint32_t profile, kiln_lookup_fn lookup, void *user,
                                     kiln_config **ret_config)
{
    if (!ret_config || profile >= PROFILE_COUNT) {
        return KILN_E_INVALID;
    }
    kiln_config *config = calloc(1, sizeof *config);
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
    if (reader.status != KILN_OK) {
        kiln_config_free(&config);
        return reader.status;
    }
    *ret_config = config;
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
    free((*config)->dir);
    free((*config)->trace);
    free((*config)->stats);
    free((*config)->tool);
    free((*config)->key_file);
    free((*config)->compile_options);
    free((*config)->link_options);
    free((*config)->appended_compile);
    free((*config)->appended_link);
    kilni_text_done(&(*config)->key_variables);
    kilni_text_done(&(*config)->complaints);
    free(*config);
    *config = NULL;
}

const char *kiln_config_dir(const kiln_config *config)
{
    return config->dir;
}

uint64_t kiln_config_max_bytes(const kiln_config *config)
{
    return config->store.max_bytes;
}

const char *kiln_config_location(const kiln_config *config)
{
    return config->is_persistent && !config->disabled ? config->dir : NULL;
}

kiln_status kiln_config_get_store(const kiln_config *config, kiln_store_params *ret_params)
{
    const bool is_done = config && ret_params &&
                         kilni_params_hand_out(ret_params, &config->store, sizeof config->store);
    return is_done ? KILN_OK : KILN_E_INVALID;
}

kiln_status kiln_config_get_memory(const kiln_config *config, kiln_cache_params *ret_params)
{
    const bool is_done = config && ret_params &&
                         kilni_params_hand_out(ret_params, &config->memory, sizeof config->memory);
    return is_done ? KILN_OK : KILN_E_INVALID;
}

kiln_status kiln_config_get_programs(const kiln_config *config, kiln_program_context_params *params)
{
    if (!config || !params) {
        return KILN_E_INVALID;
    }
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
    kilni_params_hand_out(params, &filled, sizeof filled);
    return KILN_OK;
}

uint64_t kiln_config_min_image_bytes(const kiln_config *config)
{
    return config->min_image_bytes;
}

uint64_t kiln_config_max_image_bytes(const kiln_config *config)
{
    return config->max_image_bytes;
}

int kiln_config_readonly(const kiln_config *config)
{
    return config->readonly;
}

int kiln_config_disabled(const kiln_config *config)
{
    return config->disabled;
}

int kiln_config_helper(const kiln_config *config)
{
    return config->helper;
}

int kiln_config_last_miss(const kiln_config *config)
{
    return config->last_miss;
}

const char *kiln_config_tool(const kiln_config *config)
{
    return config->tool;
}

const char *kiln_config_trace(const kiln_config *config)
{
    return config->trace;
}

uint32_t kiln_config_trace_events(const kiln_config *config)
{
    return config->trace_events;
}

const char *kiln_config_stats(const kiln_config *config)
{
    return config->stats;
}

const char *kiln_config_key_file(const kiln_config *config)
{
    return config->key_file;
}

static const char *string_at(const kilni_text *strings, size_t index)
{
    size_t at = 0;
    for (; index > 0 && at < strings->length; index--) {
        at += strlen(strings->bytes + at) + 1;
    }
    return at < strings->length ? strings->bytes + at : NULL;
}

const char *kiln_config_key_variable(const kiln_config *config, size_t index)
{
    return string_at(&config->key_variables, index);
}

const char *kiln_config_complaint(const kiln_config *config, size_t index)
{
    return string_at(&config->complaints, index);
}

kiln_status kiln_size_parse(const char *text, uint64_t *ret_bytes)
{
    return kilni_size_parse(text, ret_bytes);
}
