/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_url.h"
#include "base/size.h"
#include "face/environment/config.h"

/* The maximum number of bytes of a value that a warning shows. */
#define SHOWN_VALUE_BYTES 200

const char *kilni_config_value(const kilni_config_reader *reader, const char *name)
{
    const char *value = reader->lookup(reader->user, name);
    return value && *value ? value : NULL;
}

/* Appends a value on one line, and truncates it if it is long. */
static void append_shown(kilni_text *line, const char *value)
{
    size_t length = strlen(value);
    size_t shown = kilni_text_cut(value, length, SHOWN_VALUE_BYTES);
    for (size_t i = 0; i < shown; i++) {
        unsigned char byte = (unsigned char)value[i];
        bool control = byte < 0x20 || byte == 0x7f;
        kilni_text_printf(line, control ? "\\x%02x" : "%c", byte);
    }
    kilni_text_append(line, shown < length ? "..." : "");
}

void kilni_config_warn(kilni_config_reader *reader, const char *name, const char *value,
                       const char *expected, const char *used)
{
    if (reader->status != KILN_OK) {
        return;
    }
    kilni_text line = {0};
    kilni_text_printf(&line, "%s=", name);
    append_shown(&line, value);
    reader->status = kilni_text_printf(&line, ": %s; %s", expected, used);
    if (reader->status == KILN_OK) {
        reader->status =
            kilni_text_append_bytes(&reader->config->warnings, line.bytes, line.length + 1);
    }
    kilni_text_done(&line);
}

void kilni_config_read_switch(kilni_config_reader *reader, const char *name, int *switched)
{
    const char *value = kilni_config_value(reader, name);
    if (!value) {
        return;
    }
    if (strcmp(value, "0") == 0 || strcmp(value, "1") == 0) {
        *switched = value[0] == '1';
        return;
    }
    kilni_config_warn(reader, name, value, "expected 0 or 1",
                      *switched ? "1 is used" : "0 is used");
}

void kilni_config_read_size(kilni_config_reader *reader, const char *name, const char *used,
                            uint64_t *bytes)
{
    const char *value = kilni_config_value(reader, name);
    if (value && kilni_size_parse(value, bytes) != KILN_OK) {
        kilni_config_warn(reader, name, value,
                          "expected a number of bytes, with at most one suffix K, M, G or T", used);
    }
}

static void warn_of_number(kilni_config_reader *reader, const char *name, const char *value,
                           const char *noun, uint64_t max, uint64_t used)
{
    char expected[96], instead[48];
    snprintf(expected, sizeof expected, "expected a number of %s, at most %" PRIu64, noun, max);
    snprintf(instead, sizeof instead, "%" PRIu64 " is used", used);
    kilni_config_warn(reader, name, value, expected, instead);
}

void kilni_config_read_number(kilni_config_reader *reader, const char *name, const char *noun,
                              uint64_t max, uint64_t *number)
{
    const char *value = kilni_config_value(reader, name);
    if (!value) {
        return;
    }
    const bool has_digits_only = strspn(value, "0123456789") == strlen(value);
    uint64_t read = 0;
    if (has_digits_only && kilni_size_parse(value, &read) == KILN_OK && read <= max) {
        *number = read;
        return;
    }
    warn_of_number(reader, name, value, noun, max, *number);
}

kiln_status kilni_config_join_path(const char *base, const char *below, char **ret_path)
{
    size_t length = strlen(base);
    while (*below && length > 0 && base[length - 1] == '/') {
        length--;
    }
    kilni_text path = {0};
    kilni_text_append_bytes(&path, base, length);
    const kiln_status status = kilni_text_append(&path, below);
    if (status != KILN_OK) {
        kilni_text_done(&path);
        return status;
    }
    *ret_path = path.bytes;
    return KILN_OK;
}

void kilni_config_read_text(kilni_config_reader *reader, const char *name, char **text)
{
    const char *value = kilni_config_value(reader, name);
    if (value && reader->status == KILN_OK) {
        reader->status = kilni_config_join_path(value, "", text);
    }
}

/* Warns about each of the first @count candidates that is set. No such value names the same
 * location in every working directory. */
static void warn_of_relative(kilni_config_reader *reader, const kilni_dir_candidate *candidates,
                             size_t count)
{
    const char *dir = reader->config->dir;
    kilni_text used = {0};
    append_shown(&used, dir ? dir : "");
    const kiln_status status =
        kilni_text_append(&used, dir ? " is used" : "nothing is stored on disk");
    reader->status = reader->status == KILN_OK ? status : reader->status;
    for (size_t i = 0; reader->status == KILN_OK && i < count; i++) {
        const char *value = kilni_config_value(reader, candidates[i].variable);
        if (value) {
            /* There can be a password before an '@' in a value. */
            kilni_config_warn(reader, candidates[i].variable, strchr(value, '@') ? "..." : value,
                              "expected an absolute path", used.bytes);
        }
    }
    kilni_text_done(&used);
}

/* Returns true if a value names the same location in every working directory. */
static bool is_place(const char *value, const kilni_dir_candidate *candidate)
{
    static const char *const urls[] = {
        "pack:/",  "redis://", "rediss://", "redis+unix:/", "redis-cluster://", "rediss-cluster://",
        "http://", "https://", "s3://",     "group:/"};
    bool is_url = strncmp(value, "file:/", 6) == 0 && (value[6] != '/' || value[7] == '/');
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        is_url |= strncmp(value, urls[i], strlen(urls[i])) == 0;
    }
    return value[0] == '/' || (candidate->takes_location && is_url);
}

/* The path is one location, so characters that would separate several locations are escaped. */
static kiln_status locate(const char *path, char **ret_location)
{
    kilni_text location = {0};
    const kiln_status status = strchr(path, '|') ? kilni_file_url_append(&location, path)
                                                 : kilni_text_append(&location, path);
    if (status != KILN_OK) {
        kilni_text_done(&location);
        return status;
    }
    *ret_location = location.bytes;
    return KILN_OK;
}

static kiln_status read_path(const char *base, const char *below, char **ret_location)
{
    char *path = NULL;
    kiln_status status = kilni_config_join_path(base, below, &path);
    if (status == KILN_OK) {
        status = locate(path, ret_location);
    }
    free(path);
    return status;
}

void kilni_config_read_dir(kilni_config_reader *reader, const kilni_dir_candidate *candidates,
                           size_t count, const char *fallback)
{
    size_t chosen = 0;
    const char *base = fallback, *below = "";
    bool is_location = false;
    for (; chosen < count; chosen++) {
        const char *value = kilni_config_value(reader, candidates[chosen].variable);
        if (value && is_place(value, &candidates[chosen])) {
            base = value;
            below = candidates[chosen].below;
            is_location = candidates[chosen].takes_location;
            break;
        }
    }
    if (base && reader->status == KILN_OK) {
        reader->status = is_location ? kilni_config_join_path(base, below, &reader->config->dir)
                                     : read_path(base, below, &reader->config->dir);
    }
    warn_of_relative(reader, candidates, chosen);
}
