/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables that all profiles read: this library's own variables, the variables in which other
 * tools expect credentials (AWS_…, REDISCLI_AUTH), and the variables that name the user's folders.
 */
#include <stdio.h>
#include <string.h>

#include "face/environment/config.h"

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

static void warn_of_element(kilni_config_reader *reader, const char *value, size_t number)
{
    char used[48];
    snprintf(used, sizeof used, "element %zu is left out", number);
    kilni_config_warn(reader, "KILN_KEY_ENV", value,
                      "expected names of A-Z a-z 0-9 _ separated by commas, each with at most "
                      "one '*', at its end",
                      used);
}

static void read_key_variables(kilni_config_reader *reader)
{
    const char *value = kilni_config_value(reader, "KILN_KEY_ENV");
    const char *element = value;
    for (size_t number = 1; element && reader->status == KILN_OK; number++) {
        size_t length = strcspn(element, ",");
        if (is_key_variable(element, length)) {
            kilni_text *names = &reader->config->key_variables;
            kilni_text_append_bytes(names, element, length);
            reader->status = kilni_text_append_bytes(names, "", 1);
        } else {
            warn_of_element(reader, value, number);
        }
        element = element[length] ? element + length + 1 : NULL;
    }
}

/* An empty value, which can result from an error in a script, must not make a store accept unsigned
 * entries. So the empty value is kept, and a store cannot be opened with it. */
static void read_key_file(kilni_config_reader *reader)
{
    const char *value = reader->lookup(reader->user, "KILN_SIGNING_KEY_FILE");
    if (!value) { /* the older name */
        value = reader->lookup(reader->user, "KILN_KEY_FILE");
    }
    if (value && reader->status == KILN_OK) {
        reader->config->key_file = strdup(value);
        reader->status = reader->config->key_file ? KILN_OK : KILN_E_NO_MEMORY;
    }
}

/* A relative XDG_CONFIG_HOME counts as unset, as its specification says. */
static void read_trusted_keys(kilni_config_reader *reader)
{
    static const struct {
        const char *variable, *below;
    } folders[] = {{"XDG_CONFIG_HOME", "/kiln/trusted-keys"},
                   {"HOME", "/.config/kiln/trusted-keys"}};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && reader->status == KILN_OK; i++) {
        const char *folder = kilni_config_value(reader, folders[i].variable);
        if (folder && folder[0] == '/') {
            reader->status =
                kilni_config_join_path(folder, folders[i].below, &reader->config->trusted_keys);
            return;
        }
    }
}

static void read_credentials(kilni_config_reader *reader)
{
    kilni_config *config = reader->config;
    kilni_config_read_text(reader, "KILN_HTTP_TOKEN_FILE", &config->http_token_file);
    kilni_config_read_text(reader, "REDISCLI_AUTH", &config->redis_password);
    kilni_config_read_text(reader, "KILN_SECRET_KEY_FILE", &config->secret_key_file);
    kilni_config_read_text(reader, "AWS_ACCESS_KEY_ID", &config->aws_access_key_id);
    kilni_config_read_text(reader, "AWS_SECRET_ACCESS_KEY", &config->aws_secret_access_key);
    kilni_config_read_text(reader, "AWS_SESSION_TOKEN", &config->aws_session_token);
    kilni_config_read_text(reader, "AWS_SHARED_CREDENTIALS_FILE", &config->aws_credentials_file);
    kilni_config_read_text(reader, "AWS_REGION", &config->aws_region);
    if (!config->aws_region) {
        kilni_config_read_text(reader, "AWS_DEFAULT_REGION", &config->aws_region);
    }
}

void kilni_config_read_common(kilni_config_reader *reader)
{
    kilni_config *config = reader->config;
    kiln_config *shown = &config->shown;
    shown->helper = 1;
    shown->journal = 1;
    shown->included_max_bytes = UINT64_C(128) << 20;
    shown->replay = 1;
    kilni_config_read_switch(reader, "KILN_READONLY", &shown->readonly);
    kilni_config_read_switch(reader, "KILN_DISABLE", &shown->disabled);
    kilni_config_read_switch(reader, "KILN_HELPER", &shown->helper);
    kilni_config_read_switch(reader, "KILN_REPLAY", &shown->replay);
    kilni_config_read_switch(reader, "KILN_LAST_MISS", &shown->last_miss);
    kilni_config_read_switch(reader, "KILN_JOURNAL", &shown->journal);
    kilni_config_read_text(reader, "KILN_TOOL", &config->tool);
    kilni_config_read_text(reader, "KILN_TRACE", &config->trace);
    kilni_config_read_text(reader, "KILN_STATS", &config->stats);
    kilni_config_read_text(reader, "KILN_RECORD", &config->record);
    kilni_config_read_size(reader, "KILN_INCLUDED_MAX_SIZE", "128M is used",
                           &shown->included_max_bytes);
    read_credentials(reader);
    read_key_file(reader);
    read_trusted_keys(reader);
    read_key_variables(reader);
}
