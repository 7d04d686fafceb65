/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/config.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

#define DEFAULT_MAX_BYTES ((uint64_t)2 << 30)

/* As much of a value as a complaint shows. */
#define SHOWN_VALUE_BYTES 200

struct kiln_config {
    uint64_t max_bytes;
    bool readonly, disabled, helper;
    /* NULL where unset. */
    char *dir, *trace, *stats, *tool;
    /* Strings one after another, each with its closing zero. */
    kilni_text key_variables, complaints;
};

typedef struct environment {
    kiln_lookup_fn lookup;
    void *user;
} environment;

static const char *process_lookup(void *user, const char *name)
{
    (void)user;
    return secure_getenv(name);
}

/* A variable's value; NULL where it is unset or empty, which means the same for all of ours. */
static const char *value_of(const environment *env, const char *name)
{
    const char *value = env->lookup(env->user, name);
    return value && *value ? value : NULL;
}

static kiln_status join_path(const char *base, const char *below, char **ret_path)
{
    size_t length = strlen(base);
    while (*below && length > 0 && base[length - 1] == '/') {
        length--;
    }
    kilni_text path = {0};
    kiln_status status = kilni_text_append_bytes(&path, base, length);
    if (status == KILN_OK) {
        status = kilni_text_append(&path, below);
    }
    if (status != KILN_OK) {
        kilni_text_done(&path);
        return status;
    }
    *ret_path = path.bytes;
    return KILN_OK;
}

static kiln_status copy_value(const environment *env, const char *name, char **ret_copy)
{
    const char *value = value_of(env, name);
    return value ? join_path(value, "", ret_copy) : KILN_OK;
}

/* Appends a value so that it stays on one line and is not endless. */
static kiln_status append_shown(kilni_text *line, const char *value)
{
    size_t length = strlen(value);
    size_t shown = kilni_text_cut(value, length, SHOWN_VALUE_BYTES);
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && i < shown; i++) {
        unsigned char byte = (unsigned char)value[i];
        bool control = byte < 0x20 || byte == 0x7f;
        status = control ? kilni_text_printf(line, "\\x%02x", byte)
                         : kilni_text_append_bytes(line, &byte, 1);
    }
    if (status == KILN_OK && shown < length) {
        status = kilni_text_append(line, "...");
    }
    return status;
}

/* Adds the line "NAME=value: what was expected; what is used". */
static kiln_status complain(kiln_config *config, const char *name, const char *value,
                            const char *expected, const char *used)
{
    kilni_text line = {0};
    kiln_status status = kilni_text_printf(&line, "%s=", name);
    if (status == KILN_OK) {
        status = append_shown(&line, value);
    }
    if (status == KILN_OK) {
        status = kilni_text_printf(&line, ": %s; %s", expected, used);
    }
    if (status == KILN_OK) {
        status = kilni_text_append_bytes(&config->complaints, line.bytes, line.length + 1);
    }
    kilni_text_done(&line);
    return status;
}

/* Where the cache may be, the first that is set and absolute. */
static const struct {
    const char *variable;
    const char *below;
} dir_candidates[] = {
    {"KILN_DIR", ""},
    {"XDG_CACHE_HOME", "/kiln"},
    {"HOME", "/.cache/kiln"},
};

#define DIR_CANDIDATE_COUNT (sizeof dir_candidates / sizeof dir_candidates[0])

/* Names each candidate before @chosen that was set: all of them were relative. */
static kiln_status complain_of_relative(kiln_config *config, const environment *env, size_t chosen)
{
    kilni_text used = {0};
    kiln_status status = KILN_OK;
    if (config->dir) {
        status = append_shown(&used, config->dir);
    }
    if (status == KILN_OK) {
        status = kilni_text_append(&used, config->dir ? " is used" : "nothing is stored on disk");
    }
    for (size_t i = 0; status == KILN_OK && i < chosen; i++) {
        const char *value = value_of(env, dir_candidates[i].variable);
        if (value) {
            status = complain(config, dir_candidates[i].variable, value,
                              "expected an absolute path", used.bytes);
        }
    }
    kilni_text_done(&used);
    return status;
}

/* Whether a value tells where a cache is, in any working directory: a path from the root on; for
 * KILN_DIR, which nothing is appended to, also a URL. */
static bool is_place(const char *value, const char *below)
{
    bool is_url = strncmp(value, "file:///", 8) == 0 || strncmp(value, "pack:/", 6) == 0;
    return value[0] == '/' || (is_url && below[0] == '\0');
}

static kiln_status read_dir(kiln_config *config, const environment *env)
{
    size_t chosen = 0;
    for (; chosen < DIR_CANDIDATE_COUNT; chosen++) {
        const char *value = value_of(env, dir_candidates[chosen].variable);
        if (value && is_place(value, dir_candidates[chosen].below)) {
            kiln_status status = join_path(value, dir_candidates[chosen].below, &config->dir);
            if (status != KILN_OK) {
                return status;
            }
            break;
        }
    }
    return complain_of_relative(config, env, chosen);
}

static kiln_status read_max_bytes(kiln_config *config, const environment *env)
{
    config->max_bytes = DEFAULT_MAX_BYTES;
    const char *value = value_of(env, "KILN_MAX_SIZE");
    if (!value || kiln_size_parse(value, &config->max_bytes) == KILN_OK) {
        return KILN_OK;
    }
    return complain(config, "KILN_MAX_SIZE", value,
                    "expected a number of bytes, with at most one suffix K, M, G or T",
                    "2G is used");
}

/* @switched  its default, which a wrong value leaves */
static kiln_status read_switch(kiln_config *config, const environment *env, const char *name,
                               bool *switched)
{
    const char *value = value_of(env, name);
    if (!value) {
        return KILN_OK;
    }
    if (strcmp(value, "0") == 0 || strcmp(value, "1") == 0) {
        *switched = value[0] == '1';
        return KILN_OK;
    }
    return complain(config, name, value, "expected 0 or 1", *switched ? "1 is used" : "0 is used");
}

static bool is_name_character(char character)
{
    return (character >= 'A' && character <= 'Z') || (character >= 'a' && character <= 'z') ||
           (character >= '0' && character <= '9') || character == '_';
}

static bool is_key_variable(const char *element, size_t length)
{
    if (length > 0 && element[length - 1] == '*') {
        length--;
    }
    for (size_t i = 0; i < length; i++) {
        if (!is_name_character(element[i])) {
            return false;
        }
    }
    return length > 0;
}

static kiln_status add_key_variable(kiln_config *config, const char *element, size_t length)
{
    kilni_text *names = &config->key_variables;
    kiln_status status = kilni_text_reserve(names, length + 1);
    if (status == KILN_OK) {
        kilni_text_append_bytes(names, element, length);
        kilni_text_append_bytes(names, "", 1);
    }
    return status;
}

static kiln_status complain_of_element(kiln_config *config, const char *value, size_t number)
{
    kilni_text used = {0};
    kiln_status status = kilni_text_printf(&used, "element %zu is left out", number);
    if (status == KILN_OK) {
        status = complain(config, "KILN_KEY_ENV", value,
                          "expected names of A-Z a-z 0-9 _ separated by commas, each with at most "
                          "one '*', at its end",
                          used.bytes);
    }
    kilni_text_done(&used);
    return status;
}

static kiln_status read_key_variables(kiln_config *config, const environment *env)
{
    const char *value = value_of(env, "KILN_KEY_ENV");
    if (!value) {
        return KILN_OK;
    }
    kiln_status status = KILN_OK;
    const char *element = value;
    for (size_t number = 1; status == KILN_OK; number++) {
        size_t length = strcspn(element, ",");
        status = is_key_variable(element, length) ? add_key_variable(config, element, length)
                                                  : complain_of_element(config, value, number);
        if (element[length] == '\0') {
            break;
        }
        element += length + 1;
    }
    return status;
}

static kiln_status read_all(kiln_config *config, const environment *env)
{
    kiln_status status = read_dir(config, env);
    if (status == KILN_OK) {
        status = read_max_bytes(config, env);
    }
    if (status == KILN_OK) {
        status = read_switch(config, env, "KILN_READONLY", &config->readonly);
    }
    if (status == KILN_OK) {
        status = read_switch(config, env, "KILN_DISABLE", &config->disabled);
    }
    if (status == KILN_OK) {
        config->helper = true;
        status = read_switch(config, env, "KILN_HELPER", &config->helper);
    }
    if (status == KILN_OK) {
        status = copy_value(env, "KILN_TOOL", &config->tool);
    }
    if (status == KILN_OK) {
        status = copy_value(env, "KILN_TRACE", &config->trace);
    }
    if (status == KILN_OK) {
        status = copy_value(env, "KILN_STATS", &config->stats);
    }
    if (status == KILN_OK) {
        status = read_key_variables(config, env);
    }
    return status;
}

kiln_status kiln_config_from_env(kiln_lookup_fn lookup, void *user, kiln_config **ret_config)
{
    if (!ret_config) {
        return KILN_E_INVALID;
    }
    kiln_config *config = calloc(1, sizeof *config);
    if (!config) {
        return KILN_E_NO_MEMORY;
    }
    environment env = {.lookup = lookup ? lookup : process_lookup, .user = user};
    kiln_status status = read_all(config, &env);
    if (status != KILN_OK) {
        kiln_config_free(&config);
        return status;
    }
    *ret_config = config;
    return KILN_OK;
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
    return config->max_bytes;
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

const char *kiln_config_tool(const kiln_config *config)
{
    return config->tool;
}

const char *kiln_config_trace(const kiln_config *config)
{
    return config->trace;
}

const char *kiln_config_stats(const kiln_config *config)
{
    return config->stats;
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
