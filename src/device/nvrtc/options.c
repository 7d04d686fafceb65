/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "device/watch/inputs.h"

#define EXPRESSION "--kiln-name-expression="

/* Takes ownership of @text, even if memory runs out. */
static kiln_status append(char ***items, size_t *count, char *text)
{
    char **grown = text ? realloc(*items, (*count + 1) * sizeof *grown) : NULL;
    if (!grown) {
        free(text);
        return KILN_E_NO_MEMORY;
    }
    *items = grown;
    grown[(*count)++] = text;
    return KILN_OK;
}

static bool is_blank(char c)
{
    return c != '\0' && strchr(KILNI_OPTION_BLANKS, c) != NULL;
}

/* Reads the next word, without its quotes. Sets @ret_word to NULL if there are no more words. */
static kiln_status next_word(const char **at, char **ret_word, kiln_error *error)
{
    while (is_blank(**at)) {
        (*at)++;
    }
    *ret_word = NULL;
    if (**at == '\0') {
        return KILN_OK;
    }
    kilni_text word = {0};
    bool quoted = false;
    kiln_status status = kilni_text_append(&word, "");
    for (; status == KILN_OK && **at != '\0' && (quoted || !is_blank(**at)); (*at)++) {
        if (**at == '"') {
            quoted = !quoted;
        } else {
            status = kilni_text_append_bytes(&word, *at, 1);
        }
    }
    if (status == KILN_OK && quoted) {
        status = kilni_error_set(error, KILN_E_BUILD, 0, "an unterminated quote in the options");
    }
    if (status != KILN_OK) {
        kilni_text_done(&word);
        return status;
    }
    *ret_word = word.bytes;
    return KILN_OK;
}

/* Removes the blanks at both ends of an option that was quoted; NVRTC ignores them. */
static void trim(char *word)
{
    const size_t before = strspn(word, KILNI_OPTION_BLANKS);
    size_t length = strlen(word + before);
    while (length > 0 && is_blank(word[before + length - 1])) {
        length--;
    }
    memmove(word, word + before, length);
    word[length] = '\0';
}

static kiln_status take_word(kilni_nvrtc_options *options, char *word)
{
    if (strncmp(word, EXPRESSION, strlen(EXPRESSION)) != 0) {
        trim(word);
        return append(&options->items, &options->count, word);
    }
    char *expression = strdup(word + strlen(EXPRESSION));
    free(word);
    return append(&options->expressions, &options->expression_count, expression);
}

static kiln_status add_architecture(const char *architecture, kilni_nvrtc_options *options)
{
    if (!architecture) {
        return KILN_OK;
    }
    kilni_text word = {0};
    const kiln_status status = kilni_text_printf(&word, "-arch=%s", architecture);
    return status == KILN_OK ? append(&options->items, &options->count, word.bytes) : status;
}

static bool names_architecture(const char *word)
{
    static const char *const names[] = {"-arch", "--gpu-architecture"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t length = strlen(names[i]);
        if (strncmp(word, names[i], length) == 0 && (word[length] == '\0' || word[length] == '=')) {
            return true;
        }
    }
    return false;
}

/* NVRTC accepts only one option that names an architecture. If the text has such an option, this
 * function drops the option that was added before the text. */
static void drop_architecture(kilni_nvrtc_options *options)
{
    bool is_named = false;
    for (size_t i = 1; i < options->count; i++) {
        is_named |= names_architecture(options->items[i]);
    }
    if (is_named) {
        free(options->items[0]);
        options->count--;
        memmove(options->items, options->items + 1, options->count * sizeof *options->items);
    }
}

kiln_status kilni_nvrtc_options_parse(const char *architecture, const char *text,
                                      kilni_nvrtc_options *ret_options, kiln_error *error)
{
    kilni_nvrtc_options options = {0};
    const char *at = text ? text : "";
    char *word = NULL;
    kiln_status status = add_architecture(architecture, &options);
    while (status == KILN_OK && (status = next_word(&at, &word, error)) == KILN_OK && word) {
        status = take_word(&options, word);
    }
    if (status == KILN_OK && architecture) {
        drop_architecture(&options);
    }
    *ret_options = options;
    return status;
}

static void free_all(char **items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(items[i]);
    }
    free(items);
}

void kilni_nvrtc_options_done(kilni_nvrtc_options *options)
{
    free_all(options->items, options->count);
    free_all(options->expressions, options->expression_count);
    *options = (kilni_nvrtc_options){0};
}
