/* SPDX-License-Identifier: Apache-2.0
 *
 * Options are words separated by blanks; double quotes keep blanks together. Drivers differ in
 * whether they remove the quotes, so an option with quotes is read in every way.
 */
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The ways to read quotes within a word. */
typedef enum quoting {
    QUOTES_REMOVED,   /* "a b" is a b, \" is " */
    QUOTES_KEPT,      /* unchanged */
    QUOTES_BLANK,     /* each quote becomes a blank */
    BACKSLASHES_KEPT, /* "a b" is a b, \" is \" */
    QUOTING_COUNT
} quoting;

/* A word as it is written in the text. */
typedef struct word {
    const char *text;
    size_t length;
} word;

typedef struct parser {
    const char *at;
    const char *where;
    kiln_error *error;
} parser;

static kiln_status refuse(const parser *p, const char *what, const word *w)
{
    int shown = w->length < 100 ? (int)w->length : 100;
    return kilni_error_set(p->error, KILN_E_UNSUPPORTED, 0, "%s %.*s in %s", what, shown, w->text,
                           p->where);
}

/* ---- words ---- */

static bool is_separator(char c)
{
    return c == ' ' || c == '\t';
}

/* Reads the next word. @ret_word is empty at the end. */
static kiln_status next_word(parser *p, word *ret_word)
{
    while (is_separator(*p->at)) {
        p->at++;
    }
    word w = {.text = p->at};
    bool quoted = false;
    for (; *p->at != '\0' && (quoted || !is_separator(*p->at)); p->at++) {
        w.length = (size_t)(p->at - w.text) + 1;
        if (*p->at == '\\' && p->at[1] == '"') {
            p->at++;
        } else if (*p->at == '"') {
            quoted = !quoted;
        } else if (*p->at == '\\' || *p->at == '\'' ||
                   ((unsigned char)*p->at < ' ' && *p->at != '\t')) {
            return refuse(p, "a backslash, a single quote or a control character:", &w);
        }
    }
    w.length = (size_t)(p->at - w.text);
    if (quoted) {
        return refuse(p, "an unterminated quote:", &w);
    }
    *ret_word = w;
    return KILN_OK;
}

static bool begins_with(const word *w, const char *prefix)
{
    size_t length = strlen(prefix);
    return w->length >= length && memcmp(w->text, prefix, length) == 0;
}

static bool is(const word *w, const char *text)
{
    return w->length == strlen(text) && begins_with(w, text);
}

static bool has_quotes(const word *w)
{
    return memchr(w->text, '"', w->length) != NULL;
}

/* Appends a word as one way of quoting reads it. */
static kiln_status append_word(kilni_text *text, const word *w, quoting q)
{
    kiln_status status = kilni_text_reserve(text, w->length);
    for (size_t i = 0; i < w->length && status == KILN_OK; i++) {
        char c = w->text[i];
        bool escape = c == '\\';
        if (escape && (q == QUOTES_REMOVED || q == QUOTES_BLANK)) {
            c = q == QUOTES_BLANK ? ' ' : '"';
            i++;
        } else if (escape && q == BACKSLASHES_KEPT) {
            status = kilni_text_append_bytes(text, &c, 1);
            c = w->text[++i];
        } else if (c == '"' && (q == QUOTES_REMOVED || q == BACKSLASHES_KEPT)) {
            continue;
        } else if (c == '"' && q == QUOTES_BLANK) {
            c = ' ';
        }
        if (status == KILN_OK) {
            status = kilni_text_append_bytes(text, &c, 1);
        }
    }
    return status;
}

/* ---- what options mean ---- */

static kiln_status add_folder_once(kilni_opencl_options *options, char *folder)
{
    if (options->folder_count == options->folder_capacity) {
        size_t capacity = options->folder_capacity ? 2 * options->folder_capacity : 8;
        char **grown = realloc(options->folders, capacity * sizeof *grown);
        if (!grown) {
            return KILN_E_NO_MEMORY;
        }
        options->folders = grown;
        options->folder_capacity = capacity;
    }
    options->folders[options->folder_count++] = folder;
    return KILN_OK;
}

static kiln_status add_folder(kilni_opencl_options *options, const word *w)
{
    quoting last = has_quotes(w) ? QUOTING_COUNT : QUOTES_KEPT;
    for (quoting q = QUOTES_REMOVED; q < last; q++) {
        kilni_text text = {0};
        kiln_status status = append_word(&text, w, q);
        if (status == KILN_OK) {
            status = add_folder_once(options, text.bytes);
        }
        if (status != KILN_OK) {
            kilni_text_done(&text);
            return status;
        }
    }
    return KILN_OK;
}

/* Appends "#define NAME VALUE" for NAME=VALUE, and 1 as the value of NAME. */
static kiln_status append_define(kilni_text *lines, const char *name, size_t length)
{
    const char *equals = memchr(name, '=', length);
    size_t name_length = equals ? (size_t)(equals - name) : length;
    kiln_status status = kilni_text_append(lines, "#define ");
    if (status == KILN_OK) {
        status = kilni_text_append_bytes(lines, name, name_length);
    }
    if (status == KILN_OK) {
        status = kilni_text_append(lines, equals ? " " : " 1");
    }
    if (status == KILN_OK && equals) {
        status = kilni_text_append_bytes(lines, equals + 1, length - name_length - 1);
    }
    return status == KILN_OK ? kilni_text_append(lines, "\n") : status;
}

static kiln_status add_define(kilni_opencl_options *options, const word *w)
{
    quoting last = has_quotes(w) ? QUOTING_COUNT : QUOTES_KEPT;
    kiln_status status = KILN_OK;
    for (quoting q = QUOTES_REMOVED; q < last && status == KILN_OK; q++) {
        kilni_text text = {0};
        status = append_word(&text, w, q);
        if (status == KILN_OK) {
            status = append_define(&options->defines, text.bytes, text.length);
        }
        kilni_text_done(&text);
    }
    return status;
}

static kiln_status add_include(kilni_opencl_options *options, const word *w)
{
    kiln_status status = kilni_text_append(&options->defines, "#include \"");
    if (status == KILN_OK) {
        status = kilni_text_append_bytes(&options->defines, w->text, w->length);
    }
    return status == KILN_OK ? kilni_text_append(&options->defines, "\"\n") : status;
}

static kiln_status take_folder(parser *p, kilni_opencl_options *options, const word *argument)
{
    if (*argument->text == '=') {
        return refuse(p, "a folder below a system root:", argument);
    }
    return add_folder(options, argument);
}

static kiln_status take_define(parser *p, kilni_opencl_options *options, const word *argument)
{
    if (memmem(argument->text, argument->length, "/*", 2)) {
        return refuse(p, "a comment:", argument);
    }
    return add_define(options, argument);
}

static kiln_status take_undefine(parser *p, kilni_opencl_options *options, const word *argument)
{
    /* Both possibilities are followed anyway: the macro with its definition, and without. */
    (void)p, (void)options, (void)argument;
    return KILN_OK;
}

static kiln_status take_include(parser *p, kilni_opencl_options *options, const word *argument)
{
    if (has_quotes(argument)) {
        return refuse(p, "a quoted file:", argument);
    }
    return add_include(options, argument);
}

static kiln_status take_language(parser *p, kilni_opencl_options *options, const word *argument)
{
    (void)options;
    if (is(argument, "cl") || is(argument, "clc") || is(argument, "clcpp")) {
        return KILN_OK;
    }
    return refuse(p, "the language", argument);
}

static kiln_status take_value(parser *p, kilni_opencl_options *options, const word *argument)
{
    (void)p, (void)options, (void)argument;
    return KILN_OK;
}

/* Options with an argument, in the same word or the next. The first match in this order is used. */
typedef struct option_with_argument {
    const char *name;
    bool joined; /* the argument may follow in the same word */
    kiln_status (*take)(parser *p, kilni_opencl_options *options, const word *argument);
} option_with_argument;

static const option_with_argument with_argument[] = {
    {"-include", false, take_include},
    {"-I", true, take_folder},
    {"-D", true, take_define},
    {"-U", true, take_undefine},
    {"-x", true, take_language},
    {"-cl-nv-maxrregcount", false, take_value},
    {"-cl-nv-opt-level", false, take_value},
    {"-cl-nv-arch", false, take_value},
    {"-cl-nv-cstd", false, take_value},
};

/* Options that name no file, whatever follows in the same word; "$" marks those after which nothing
 * may follow. */
static const char *const without_file[] = {
    "-cl-",
    "-w$",
    "-O$",
    "-O0$",
    "-O1$",
    "-O2$",
    "-O3$",
    "-O4$",
    "-O5$",
    "-Os$",
    "-Oz$",
    "-Ofast$",
    "-std=",
    "-spir-std=",
    "-m32$",
    "-m64$",
    "-march=",
    "-mcpu=",
    "-mtune=",
    "-mno-",
    "-fno-",
    "-ffast-math$",
    "-ffinite-math-only$",
    "-funsafe-math-optimizations$",
    "-ffp-contract=",
    "-fsigned-char$",
    "-funsigned-char$",
    "-funroll-loops$",
    "-fvectorize$",
    "-fslp-vectorize$",
};

static bool names_no_file(const word *w)
{
    /* With a comma, -W passes words to other programs. */
    if (begins_with(w, "-W") && !memchr(w->text, ',', w->length)) {
        return true;
    }
    for (size_t i = 0; i < sizeof without_file / sizeof *without_file; i++) {
        const char *option = without_file[i];
        size_t length = strlen(option);
        bool whole = option[length - 1] == '$';
        length -= whole;
        if (w->length >= length && memcmp(w->text, option, length) == 0 &&
            (!whole || w->length == length)) {
            return true;
        }
    }
    return false;
}

static const option_with_argument *find_option(const word *w)
{
    for (size_t i = 0; i < sizeof with_argument / sizeof *with_argument; i++) {
        const option_with_argument *o = &with_argument[i];
        if (o->joined ? begins_with(w, o->name) : is(w, o->name)) {
            return o;
        }
    }
    return NULL;
}

/* Finds the argument of an option, which must not look like an option itself. */
static kiln_status find_argument(parser *p, const word *w, const option_with_argument *o,
                                 word *ret_argument)
{
    size_t length = strlen(o->name);
    word argument = {.text = w->text + length, .length = w->length - length};
    if (argument.length == 0) {
        kiln_status status = next_word(p, &argument);
        if (status != KILN_OK) {
            return status;
        }
    }
    if (argument.length == 0 || *argument.text == '-' || is(&argument, "\"\"")) {
        return refuse(p, "no argument after", w);
    }
    *ret_argument = argument;
    return KILN_OK;
}

/* Whether any quote has no backslash before it. */
static bool has_bare_quotes(const word *w)
{
    for (size_t i = 0; i < w->length; i++) {
        if (w->text[i] == '"' && (i == 0 || w->text[i - 1] != '\\')) {
            return true;
        }
    }
    return false;
}

/* Reads a word that is quoted as a whole without its quotes: -D X and "-DX" are the same to some
 * drivers, and the others refuse it. */
static word unquote(const word *w)
{
    word inner = {.text = w->text + 1, .length = w->length - 2};
    bool quoted = w->length >= 2 && w->text[0] == '"' && w->text[w->length - 1] == '"';
    return quoted && !has_bare_quotes(&inner) ? inner : *w;
}

static kiln_status take_option(parser *p, kilni_opencl_options *options, const word *outer)
{
    word w = unquote(outer);
    const option_with_argument *o = find_option(&w);
    if (!o) {
        return names_no_file(&w) && !has_quotes(&w) ? KILN_OK : refuse(p, "option", outer);
    }
    word argument;
    kiln_status status = find_argument(p, &w, o, &argument);
    return status == KILN_OK ? o->take(p, options, &argument) : status;
}

kiln_status kilni_opencl_options_parse(kilni_opencl_options *options, const char *text,
                                       const char *where, kiln_error *error)
{
    parser p = {.at = text ? text : "", .where = where, .error = error};
    for (;;) {
        word w = {0};
        kiln_status status = next_word(&p, &w);
        if (status != KILN_OK || w.length == 0) {
            return status;
        }
        status = take_option(&p, options, &w);
        if (status != KILN_OK) {
            return status;
        }
    }
}

void kilni_opencl_options_done(kilni_opencl_options *options)
{
    for (size_t i = 0; i < options->folder_count; i++) {
        free(options->folders[i]);
    }
    free(options->folders);
    kilni_text_done(&options->defines);
    *options = (kilni_opencl_options){0};
}
