/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/watch/inputs.h"

#define EXPRESSION "--kiln-name-expression="

/* Takes @text over, also where there is no memory. */
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

/* The next word, without its quotes; NULL at the end. */
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
        status = kilni_error_set(error, KILN_E_BUILD, 0, "an open quote in the options");
    }
    if (status != KILN_OK) {
        kilni_text_done(&word);
        return status;
    }
    *ret_word = word.bytes;
    return KILN_OK;
}

/* ---- what the preprocessor is told ---- */

/* The argument of an option, in the same word, behind '=' or not, or in the next; NULL: the word is
 * no such option, or has none. */
static const char *argument_of(const kilni_nvrtc_options *options, size_t i, const char *name)
{
    const char *word = options->items[i];
    const size_t length = strlen(name);
    if (strncmp(word, name, length) != 0) {
        return NULL;
    }
    const bool is_long = name[1] == '-' || length > 2;
    if (word[length] == '\0') {
        return i + 1 < options->count ? options->items[i + 1] : NULL;
    }
    if (word[length] == '=') {
        return word + length + 1;
    }
    return is_long ? NULL : word + length + strspn(word + length, KILNI_OPTION_BLANKS);
}

static const char *argument_of_either(const kilni_nvrtc_options *options, size_t i,
                                      const char *name, const char *other)
{
    const char *argument = argument_of(options, i, name);
    return argument ? argument : argument_of(options, i, other);
}

static kiln_status add_define(kilni_text *lines, const char *define)
{
    const char *equals = strchr(define, '=');
    const int name = equals ? (int)(equals - define) : (int)strlen(define);
    return kilni_text_printf(lines, "#define %.*s %s\n", name, define, equals ? equals + 1 : "1");
}

/* Whether an option hands on something to a compiler within NVRTC by which that may read a file.
 * What others than ptxas take nobody has described. */
static bool may_name_file(const kilni_nvrtc_options *options, size_t i)
{
    static const char *const others[] = {"-Xcudafe", "-Xnvvm", "-Xopt", "-Xllc", "-Xlnk", "-Xlto"};
    const char *given = argument_of_either(options, i, "-Xptxas", "--ptxas-options");
    bool may = given && (*given != '-' || strpbrk(given, "./ ") || strstr(given, "file") ||
                         strstr(given, "optf"));
    for (size_t n = 0; n < sizeof others / sizeof *others; n++) {
        may = may || argument_of(options, i, others[n]);
    }
    return may;
}

/* Notes what one option says of files and macros. */
static kiln_status see_option(kilni_nvrtc_options *options, size_t i)
{
    options->may_name_files |= may_name_file(options, i);
    const char *folder = argument_of_either(options, i, "-I", "--include-path");
    if (folder) {
        return append(&options->folders, &options->folder_count, strdup(folder));
    }
    const char *file = argument_of_either(options, i, "-include", "--pre-include");
    if (file) {
        return kilni_text_printf(&options->defines, "#include \"%s\"\n", file);
    }
    const char *define = argument_of_either(options, i, "-D", "--define-macro");
    return define ? add_define(&options->defines, define) : KILN_OK;
}

/* Takes away what stands in quotes around an option, and is not seen by NVRTC. */
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

/* NVRTC takes an option once: where the text says an architecture, that which was put before it
 * goes. */
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
    for (size_t i = 0; status == KILN_OK && i < options.count; i++) {
        status = see_option(&options, i);
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
    free_all(options->folders, options->folder_count);
    kilni_text_done(&options->defines);
    *options = (kilni_nvrtc_options){0};
}
