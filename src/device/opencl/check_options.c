/* SPDX-License-Identifier: Apache-2.0
 *
 * Options are words separated by blanks. Blanks between double quotes do not separate words.
 */
#include "check_options.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"

/* A word as it is written in the text. */
typedef struct word {
    const char *text;
    size_t length;
} word;

typedef struct parser {
    const char *at;
    const char *where;
    bool is_link;
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

/* ---- options ---- */

/* An option with an argument, which is in the same word or in the next word. The first row of the
 * table that matches a word is used. */
typedef struct option_with_argument {
    const char *name;
    bool joined;      /* the argument can follow in the same word */
    bool of_compiler; /* not for links */
} option_with_argument;

static const option_with_argument with_argument[] = {
    {"-include", false, true},
    {"-I", true, true},
    {"-D", true, true},
    {"-U", true, false},
    {"-x", true, false},
    {"-cl-nv-maxrregcount", false, false},
    {"-cl-nv-opt-level", false, false},
    {"-cl-nv-arch", false, false},
    {"-cl-nv-cstd", false, false},
};

/* Options that name no file, no matter what follows in the same word. If an option ends with "$"
 * here, nothing must follow it. */
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
    /* A word that begins with -W and contains a comma passes words to other programs. */
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

/* Finds the argument of an option. The argument must not look like an option itself. */
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

/* Returns true if at least one quote has no backslash before it. */
static bool has_bare_quotes(const word *w)
{
    for (size_t i = 0; i < w->length; i++) {
        if (w->text[i] == '"' && (i == 0 || w->text[i - 1] != '\\')) {
            return true;
        }
    }
    return false;
}

/* If a word is quoted as a whole, returns it without its quotes. Some drivers treat "-DX", with its
 * quotes, as -DX. All other drivers refuse it. */
static word unquote(const word *w)
{
    word inner = {.text = w->text + 1, .length = w->length - 2};
    bool quoted = w->length >= 2 && w->text[0] == '"' && w->text[w->length - 1] == '"';
    return quoted && !has_bare_quotes(&inner) ? inner : *w;
}

static bool is_known_language(const word *w)
{
    return is(w, "cl") || is(w, "clc") || is(w, "clcpp");
}

static kiln_status check_option(parser *p, const word *outer)
{
    word w = unquote(outer);
    const option_with_argument *o = find_option(&w);
    if (!o) {
        return names_no_file(&w) && !has_quotes(&w) ? KILN_OK : refuse(p, "option", outer);
    }
    word argument;
    const kiln_status status = find_argument(p, &w, o, &argument);
    if (status != KILN_OK) {
        return status;
    }
    if (is(&(word){o->name, 2}, "-x") && !is_known_language(&argument)) {
        return refuse(p, "the language", &argument);
    }
    return p->is_link && o->of_compiler ? refuse(p, "compiler option", outer) : KILN_OK;
}

static kiln_status check(parser *p)
{
    for (;;) {
        word w = {0};
        kiln_status status = next_word(p, &w);
        if (status != KILN_OK || w.length == 0) {
            return status;
        }
        status = check_option(p, &w);
        if (status != KILN_OK) {
            return status;
        }
    }
}

kiln_status kilni_opencl_check_options(const char *text, const char *where, kiln_error *error)
{
    return check(&(parser){.at = text ? text : "", .where = where, .error = error});
}

kiln_status kilni_opencl_link_options_check(const char *text, kiln_error *error)
{
    return check(&(parser){
        .at = text ? text : "", .where = "the link options", .is_link = true, .error = error});
}
