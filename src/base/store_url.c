/* SPDX-License-Identifier: Apache-2.0 */
#include "base/store_url.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

/* What means itself in a URL. */
static bool is_plain(char character)
{
    return (character >= 'A' && character <= 'Z') || (character >= 'a' && character <= 'z') ||
           (character >= '0' && character <= '9') || strchr("/-._~", character);
}

static kiln_status append_escaped(kilni_text *text, const char *before, const char *path)
{
    kiln_status status = kilni_text_append(text, before);
    for (; status == KILN_OK && *path; path++) {
        status = is_plain(*path)
                     ? kilni_text_append_bytes(text, path, 1)
                     : kilni_text_printf(text, "%%%02X", (unsigned)(unsigned char)*path);
    }
    return status;
}

/* Nothing where there is no value. */
static kiln_status append_option(kilni_text *text, const char *name, const char *value)
{
    return value ? kilni_text_printf(text, "&%s=%s", name, value) : KILN_OK;
}

static kiln_status append_all(kilni_text *text, const kilni_store_url *url)
{
    kiln_status status = append_escaped(text, "file://", url->dir);
    if (status == KILN_OK) {
        status = kilni_text_printf(text, "?max-size=%" PRIu64, url->max_bytes);
    }
    if (status == KILN_OK) {
        status = append_option(text, "layout", url->layout);
    }
    if (status == KILN_OK) {
        status = append_option(text, "policy", url->policy);
    }
    if (status == KILN_OK && url->max_age_days > 0) {
        status = kilni_text_printf(text, "&max-age=%" PRIu64, url->max_age_days);
    }
    if (status == KILN_OK) {
        status = append_option(text, "readonly", url->readonly ? "1" : NULL);
    }
    if (status == KILN_OK && url->key_file) {
        status = append_escaped(text, "&key-file=", url->key_file);
    }
    return status;
}

kiln_status kilni_store_url_make(const kilni_store_url *url, char **ret_text)
{
    kilni_text text = {0};
    kiln_status status = append_all(&text, url);
    if (status != KILN_OK) {
        kilni_text_done(&text);
        return status;
    }
    *ret_text = text.bytes;
    return KILN_OK;
}
