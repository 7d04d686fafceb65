/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/inputs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "key/builder.h"

/* ---- options ---- */

static bool is_option(const char *given, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(given, name, length) == 0 && (given[length] == '\0' || given[length] == '=' ||
                                                 strchr(KILNI_OPTION_BLANKS, given[length]));
}

static bool is_any_option(const char *given, const char *const *names)
{
    for (; *names; names++) {
        if (is_option(given, *names)) {
            return true;
        }
    }
    return false;
}

/* Returns the option without its one or two dashes. Returns "" if @option has no dash, because it
 * is then the value of an option. */
static const char *name_of(const char *option)
{
    const char *text = option + strspn(option, KILNI_OPTION_BLANKS);
    return text[0] != '-' ? "" : text[1] == '-' ? text + 2 : text + 1;
}

static kiln_status add_options(const kilni_inputs *inputs, bool *ret_is_placed,
                               kiln_key_builder *key, kiln_error *error)
{
    for (size_t i = 0; i < inputs->option_count; i++) {
        const char *option = inputs->options[i];
        if (is_any_option(name_of(option), inputs->compiler->unkept_options)) {
            return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "option %.100s", option);
        }
        *ret_is_placed |= is_any_option(name_of(option), inputs->compiler->placed_options);
        kiln_key_builder_add_text(key, "option", option);
    }
    return KILN_OK;
}

/* Also adds PWD. If PWD names the working directory, a compiler might use it as the directory's
 * path. */
static void add_working_directory(kiln_key_builder *key)
{
    char *path = getcwd(NULL, 0);
    const char *spelled = getenv("PWD");
    kilni_key_builder_fail(key, path ? KILN_OK : KILN_E_UNSUPPORTED);
    kiln_key_builder_add_text(key, "working directory", path);
    if (spelled) {
        kiln_key_builder_add_text(key, "env.PWD", spelled);
    }
    free(path);
}

/* ---- texts ---- */

static void add_name(const char *name, kiln_key_builder *key)
{
    const size_t folder_length = kilni_program_folder_length(name);
    kiln_key_builder_add_text(key, "name", name + folder_length);
    if (folder_length > 0) {
        kiln_key_builder_add_text(key, "name.folder", "any");
    }
}

static kiln_status add_texts(const kilni_inputs *inputs, kiln_key_builder *key)
{
    if (inputs->name) {
        add_name(inputs->name, key);
    }
    kiln_status status = kiln_key_builder_add_text(key, "source", inputs->source);
    for (size_t i = 0; i < inputs->header_count; i++) {
        kiln_key_builder_add_text(key, "header", inputs->header_names[i]);
        status = kiln_key_builder_add_text(key, "header.content", inputs->headers[i]);
    }
    for (size_t i = 0; i < inputs->expression_count; i++) {
        status = kiln_key_builder_add_text(key, "name expression", inputs->expressions[i]);
    }
    return status;
}

static void see_words(const kilni_inputs *inputs, kilni_words *words)
{
    kilni_words_scan(words, inputs->source, strlen(inputs->source));
    for (size_t i = 0; i < inputs->header_count; i++) {
        kilni_words_scan(words, inputs->headers[i], strlen(inputs->headers[i]));
    }
    for (size_t i = 0; i < inputs->expression_count; i++) {
        kilni_words_scan(words, inputs->expressions[i], strlen(inputs->expressions[i]));
    }
    for (size_t i = 0; i < inputs->option_count; i++) {
        kilni_words_scan(words, inputs->options[i], strlen(inputs->options[i]));
    }
}

kiln_status kilni_inputs_add_to_key(const kilni_inputs *inputs, kilni_words *words,
                                    kiln_key_builder *key, kiln_error *error)
{
    bool is_placed = false;
    kiln_status status = add_options(inputs, &is_placed, key, error);
    if (status == KILN_OK && is_placed) {
        add_working_directory(key);
    }
    if (status == KILN_OK) {
        status = add_texts(inputs, key);
    }
    if (status == KILN_OK) {
        see_words(inputs, words);
        const char *refusal = inputs->compiler->refuse_words(words);
        status = refusal ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s", refusal) : status;
    }
    return status == KILN_E_TOO_LARGE
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the inputs are too large for a key")
               : status;
}

/* ---- the folder of the name ---- */

size_t kilni_program_folder_length(const char *name)
{
    const char *slash = name && *name == '/' ? strrchr(name, '/') : NULL;
    return slash && slash[1] != '\0' ? (size_t)(slash - name) + 1 : 0;
}

bool kilni_text_has_program_folder(const char *name, const void *text, size_t size)
{
    const size_t end = kilni_program_folder_length(name);
    size_t begin = end > 0 ? end - 1 : 0;
    while (begin > 0 && name[begin - 1] != '/') {
        begin--;
    }
    return end > 1 && size > 0 && memmem(text, size, name + begin, end - begin) != NULL;
}

typedef struct word {
    const char *text;
    size_t length;
} word;

static bool has_word(const char *text, const void *user)
{
    const word *w = user;
    return memmem(text, strlen(text), w->text, w->length) != NULL;
}

static bool has_folder(const char *text, const void *user)
{
    return kilni_text_has_program_folder(user, text, strlen(text));
}

/* Returns true if @has returns true for any of the texts that were passed. */
static bool any_text(const kilni_inputs *inputs, bool (*has)(const char *, const void *),
                     const void *user)
{
    const struct {
        const char *const *items;
        size_t count;
    } lists[] = {{&inputs->source, 1},
                 {inputs->headers, inputs->header_count},
                 {inputs->header_names, inputs->header_count},
                 {inputs->expressions, inputs->expression_count},
                 {inputs->options, inputs->option_count}};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        for (size_t i = 0; i < lists[l].count; i++) {
            if (has(lists[l].items[i], user)) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if an option ends with the path of a folder that contains the program's folder. In
 * this case, an #include relative to that path can lead into the program's folder, with a name that
 * macros assemble. */
static bool is_above_folder(const char *option, const char *name)
{
    const char *path = strchr(option, '/');
    size_t length = path ? strlen(path) : 0;
    while (length > 0 && strchr("/" KILNI_OPTION_BLANKS, path[length - 1])) {
        length--;
    }
    return path && strncmp(name, path, length) == 0 && name[length] == '/';
}

bool kilni_inputs_may_move(const kilni_inputs *inputs)
{
    /* A text can obtain its own name through these words. */
    static const char *const words[] = {"__FILE__", "__BASE_FILE__", "__builtin_FILE",
                                        "source_location"};
    const size_t folder_length = kilni_program_folder_length(inputs->name);
    /* The word excludes the slash, because "-I/a/b" names the folder of "/a/b/c.cu". */
    const word folder = {inputs->name, folder_length > 1 ? folder_length - 1 : 0};
    bool may_move = folder_length > 1 && !any_text(inputs, has_word, &folder) &&
                    !any_text(inputs, has_folder, inputs->name);
    for (size_t i = 0; i < inputs->option_count && may_move; i++) {
        may_move = !is_any_option(name_of(inputs->options[i]), inputs->compiler->placed_options) &&
                   !is_above_folder(inputs->options[i], inputs->name);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words && may_move; i++) {
        may_move = !any_text(inputs, has_word, &(word){words[i], strlen(words[i])});
    }
    return may_move;
}
