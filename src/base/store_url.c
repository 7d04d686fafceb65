/* SPDX-License-Identifier: Apache-2.0 */
#include "base/store_url.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* What means itself in a URL. */
static bool is_plain(char character)
{
    return (character >= 'A' && character <= 'Z') || (character >= 'a' && character <= 'z') ||
           (character >= '0' && character <= '9') || strchr("/-._~", character);
}

static kiln_status append_escaped(kilni_text *text, const char *path, size_t length)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && i < length; i++) {
        status = is_plain(path[i])
                     ? kilni_text_append_bytes(text, path + i, 1)
                     : kilni_text_printf(text, "%%%02X", (unsigned)(unsigned char)path[i]);
    }
    return status;
}

/* A URL that options are added to. What it says itself goes before. */
typedef struct growing_url {
    kilni_text *text;
    size_t begin; /* in the text */
    kiln_status status;
} growing_url;

static bool says(const growing_url *url, const char *name)
{
    const size_t length = strlen(name);
    const char *option = strchr(url->text->bytes + url->begin, '?');
    for (; option; option = strchr(option + 1, '&')) {
        if (strncmp(option + 1, name, length) == 0 && option[1 + length] == '=') {
            return true;
        }
    }
    return false;
}

/* Nothing where there is no value. */
static void add_option(growing_url *url, const char *name, const char *value)
{
    if (url->status != KILN_OK || !value || says(url, name)) {
        return;
    }
    const char before = strchr(url->text->bytes + url->begin, '?') ? '&' : '?';
    url->status = kilni_text_printf(url->text, "%c%s=", before, name);
    if (url->status == KILN_OK) {
        url->status = append_escaped(url->text, value, strlen(value));
    }
}

static void add_number(growing_url *url, const char *name, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    add_option(url, name, digits);
}

/* What only a directory has. */
static void add_directory_options(growing_url *url, const kilni_store_url *store)
{
    add_number(url, "max-size", store->max_bytes);
    add_option(url, "layout", store->layout);
    add_option(url, "policy", store->policy);
    if (store->max_age_days > 0) {
        add_number(url, "max-age", store->max_age_days);
    }
    add_option(url, "readonly", store->readonly ? "1" : NULL);
}

/* Appends one place, of @length bytes: a path, or a URL. */
static kiln_status append_place(kilni_text *text, const char *place, size_t length, bool is_path,
                                const kilni_store_url *store)
{
    growing_url url = {.text = text, .begin = text->length};
    url.status = is_path ? kilni_text_append(text, "file://") : KILN_OK;
    if (url.status == KILN_OK) {
        url.status = is_path ? append_escaped(text, place, length)
                             : kilni_text_append_bytes(text, place, length);
    }
    if (is_path || strncmp(place, "file:", 5) == 0) {
        add_directory_options(&url, store);
    }
    add_option(&url, "key-file", store->key_file);
    return url.status;
}

static kiln_status append_chain(kilni_text *text, const kilni_store_url *store)
{
    const char *tier = store->dir;
    for (;;) {
        const size_t length = strcspn(tier, "|");
        const bool is_path = tier[0] == '/' || tier[0] == '.';
        kiln_status status = append_place(text, tier, length, is_path, store);
        if (status != KILN_OK || tier[length] == '\0') {
            return status;
        }
        status = kilni_text_append(text, "|");
        if (status != KILN_OK) {
            return status;
        }
        tier += length + 1;
    }
}

kiln_status kilni_store_url_make(const kilni_store_url *url, char **ret_text)
{
    kilni_text text = {0};
    kiln_status status = url->is_location
                             ? append_chain(&text, url)
                             : append_place(&text, url->dir, strlen(url->dir), true, url);
    if (status != KILN_OK) {
        kilni_text_done(&text);
        return status;
    }
    *ret_text = text.bytes;
    return KILN_OK;
}
