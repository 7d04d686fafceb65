/* SPDX-License-Identifier: Apache-2.0 */
#include "face/environment/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/sized_struct.h"

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

/* Makes a NULL-terminated list of strings that are stored one after another. */
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

/* Sets the pointers in the structure that is returned to the caller. */
static kiln_status show(kilni_config *config)
{
    kiln_config *shown = &config->shown;
    shown->location = config->is_persistent && !shown->disabled ? config->dir : NULL;
    shown->dir = config->dir;
    shown->max_bytes = config->store.max_bytes;
    shown->tool = config->tool;
    shown->trace = config->trace;
    shown->stats = config->stats;
    shown->record = config->record;
    shown->key_file = config->key_file;
    shown->credentials = &config->credentials;
    const kiln_status status = list_strings(&config->key_variables, &shown->key_variables);
    return status == KILN_OK ? list_strings(&config->warnings, &shown->warnings) : status;
}

/* Sets the members that depend on several variables. */
static void settle(kilni_config_reader *reader)
{
    kilni_config *config = reader->config;
    if (config->shown.disabled) {
        config->memory.flags |= KILN_CACHE_DISABLED;
    }
    if (config->shown.trace_events && !config->trace && reader->status == KILN_OK) {
        config->trace = strdup("-");
        reader->status = config->trace ? KILN_OK : KILN_E_NO_MEMORY;
    }
    config->store.flags = (config->shown.readonly ? KILN_STORE_READONLY : 0) |
                          (config->shown.last_miss ? KILN_STORE_NOTE_MISSES : 0) |
                          (config->shown.journal ? KILN_STORE_JOURNAL : 0);
    config->store.key_file = config->key_file;
    config->credentials = (kiln_store_credentials){
        .struct_size = sizeof config->credentials,
        .http_token_file = config->http_token_file,
        .redis_password = config->redis_password,
        .aws_access_key_id = config->aws_access_key_id,
        .aws_secret_access_key = config->aws_secret_access_key,
        .aws_session_token = config->aws_session_token,
        .aws_credentials_file = config->aws_credentials_file,
        .aws_region = config->aws_region,
        .secret_key_file = config->secret_key_file,
        .trusted_key_files = {KILN_ROOTS_TRUSTED_KEYS, config->trusted_keys}};
    config->store.credentials = &config->credentials;
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
    config->shown.max_image_bytes = KILN_UNLIMITED;
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
    free(freed->record);
    free(freed->tool);
    free(freed->key_file);
    free(freed->http_token_file);
    free(freed->redis_password);
    free(freed->secret_key_file);
    free(freed->trusted_keys);
    free(freed->aws_access_key_id);
    free(freed->aws_secret_access_key);
    free(freed->aws_session_token);
    free(freed->aws_credentials_file);
    free(freed->aws_region);
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
        kilni_sized_struct_copy_out(ret_params, &whole(config)->store, sizeof whole(config)->store);
    return is_done ? KILN_OK : KILN_E_INVALID;
}

kiln_status kiln_config_get_memory(const kiln_config *config, kiln_cache_params *ret_params)
{
    const bool is_done = config && ret_params &&
                         kilni_sized_struct_copy_out(ret_params, &whole(config)->memory,
                                                     sizeof whole(config)->memory);
    return is_done ? KILN_OK : KILN_E_INVALID;
}

kiln_status kiln_config_get_programs(const kiln_config *shown, kiln_program_context_params *params)
{
    if (!shown || !params) {
        return KILN_E_INVALID;
    }
    const kilni_config *config = whole(shown);
    kiln_program_context_params filled;
    if (kilni_sized_struct_copy(params, &filled, sizeof filled) != KILN_OK) {
        return KILN_E_INVALID;
    }
    filled.max_programs = config->memory.max_entries;
    filled.max_bytes = config->memory.max_bytes;
    filled.policy = config->memory.policy;
    filled.flags = config->memory.flags;
    filled.min_stored_bytes = shown->min_image_bytes;
    filled.max_stored_bytes = shown->max_image_bytes;
    filled.replaced = (kiln_build_options){config->compile_options, config->link_options};
    filled.appended = (kiln_build_options){config->appended_compile, config->appended_link};
    if (config->keeps_images_only) {
        filled.rules = KILN_RULES_IMAGES;
    }
    kilni_sized_struct_copy_out(params, &filled, sizeof filled);
    return KILN_OK;
}

kiln_status kiln_size_parse(const char *text, uint64_t *ret_bytes)
{
    return kilni_size_parse(text, ret_bytes);
}
