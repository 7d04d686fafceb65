/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables that all profiles read. They concern this library, and have no counterpart in other
 * projects.
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

static kiln_status add_key_variable(kilni_config *config, const char *element, size_t length)
{
    kilni_text *names = &config->key_variables;
    kiln_status status = kilni_text_reserve(names, length + 1);
    if (status == KILN_OK) {
        kilni_text_append_bytes(names, element, length);
        kilni_text_append_bytes(names, "", 1);
    }
    return status;
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
            reader->status = add_key_variable(reader->config, element, length);
        } else {
            warn_of_element(reader, value, number);
        }
        element = element[length] ? element + length + 1 : NULL;
    }
}

/* An empty value, for example of a script that lost it, must not mean that unsigned entries are
 * accepted: it is kept, and no store is opened with it. */
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

void kilni_config_read_common(kilni_config_reader *reader)
{
    kilni_config *config = reader->config;
    config->helper = true;
    kilni_config_read_switch(reader, "KILN_READONLY", &config->readonly);
    kilni_config_read_switch(reader, "KILN_DISABLE", &config->disabled);
    kilni_config_read_switch(reader, "KILN_HELPER", &config->helper);
    kilni_config_read_switch(reader, "KILN_LAST_MISS", &config->last_miss);
    kilni_config_read_text(reader, "KILN_TOOL", &config->tool);
    kilni_config_read_text(reader, "KILN_TRACE", &config->trace);
    kilni_config_read_text(reader, "KILN_STATS", &config->stats);
    read_key_file(reader);
    read_key_variables(reader);
}
