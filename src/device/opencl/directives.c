/* SPDX-License-Identifier: Apache-2.0 */
#include "directives.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    kilni_scanner scanner;
    kilni_macros *macros;
    kilni_hazards *hazards;
    kilni_directives *directives;
    kilni_token before[2]; /* the last token and the one before it */
    bool in_test;          /* in a line of #ifdef and its like, which only ask for a name */
    kiln_status status;
    const char *refusal;
} reader;

static bool stop(reader *r, const char *refusal)
{
    r->status = KILN_E_UNSUPPORTED;
    r->refusal = refusal;
    return false;
}

static bool add_include(reader *r, const char *text, size_t length, bool computed)
{
    kilni_directives *d = r->directives;
    if (d->count == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 16;
        kilni_include *grown = realloc(d->includes, capacity * sizeof *grown);
        if (!grown) {
            r->status = KILN_E_NO_MEMORY;
            return false;
        }
        d->includes = grown;
        d->capacity = capacity;
    }
    d->includes[d->count++] = (kilni_include){.text = text, .length = length, .computed = computed};
    return true;
}

/* The next token, with what it says beside its place. */
static bool next(reader *r, kilni_token *ret_token)
{
    *ret_token = kilni_scan_next(&r->scanner);
    const char *refusal = r->scanner.refusal;
    if (!refusal) {
        refusal = kilni_hazards_see(r->hazards, ret_token);
    }
    return refusal ? stop(r, refusal) : true;
}

/* ---- __has_include ---- */

static bool only_asks_for_name(const reader *r)
{
    const kilni_token *last = &r->before[0];
    const kilni_token *defined = kilni_token_is(last, "(") ? &r->before[1] : last;
    return r->in_test || kilni_token_is(defined, "defined");
}

/* Takes tokens up to the parenthesis that closes one opened before. */
static bool take_parenthesis(reader *r, const char **ret_end)
{
    for (size_t depth = 1; depth > 0;) {
        kilni_token token;
        if (!next(r, &token)) {
            return false;
        }
        if (token.kind == KILNI_TOKEN_END || token.kind == KILNI_TOKEN_NEWLINE) {
            return stop(r, "a __has_include that does not end");
        }
        depth += kilni_token_is(&token, "(");
        depth -= kilni_token_is(&token, ")");
        *ret_end = token.text;
    }
    return true;
}

static bool take_has_include(reader *r)
{
    kilni_token token;
    if (only_asks_for_name(r)) {
        return true;
    }
    if (!next(r, &token)) {
        return false;
    }
    if (!kilni_token_is(&token, "(")) {
        return stop(r, "a __has_include without a name");
    }
    kilni_scan_blanks(&r->scanner);
    const char *start = r->scanner.at;
    kilni_token name;
    if (kilni_scan_header_name(&r->scanner, &name)) {
        return r->scanner.refusal ? stop(r, r->scanner.refusal)
                                  : add_include(r, name.text, name.length, false);
    }
    const char *end;
    return take_parenthesis(r, &end) && add_include(r, start, (size_t)(end - start), true);
}

/* ---- tokens of a line ---- */

static bool is_has_include(const kilni_token *token)
{
    return token->kind == KILNI_TOKEN_IDENTIFIER && *token->text == '_' &&
           (kilni_token_is(token, "__has_include") || kilni_token_is(token, "__has_include_next"));
}

/* Takes tokens up to the end of the line. @ret_end is where its last token ends. */
static bool take_line(reader *r, kilni_token *ret_last, const char **ret_end)
{
    r->before[0] = r->before[1] = (kilni_token){0};
    for (;;) {
        kilni_token token;
        *ret_end = r->scanner.at;
        if (!next(r, &token)) {
            return false;
        }
        if (token.kind == KILNI_TOKEN_END || token.kind == KILNI_TOKEN_NEWLINE) {
            *ret_last = token;
            return true;
        }
        if (is_has_include(&token) && !take_has_include(r)) {
            return false;
        }
        r->before[1] = r->before[0];
        r->before[0] = token;
    }
}

/* ---- directives: each takes its line up to the newline, which it gives back ---- */

static bool take_include(reader *r, kilni_token *ret_last)
{
    const char *end;
    kilni_token name;
    kilni_scan_blanks(&r->scanner);
    const char *start = r->scanner.at;
    if (kilni_scan_header_name(&r->scanner, &name)) {
        return !r->scanner.refusal
                   ? add_include(r, name.text, name.length, false) && take_line(r, ret_last, &end)
                   : stop(r, r->scanner.refusal);
    }
    return take_line(r, ret_last, &end) && add_include(r, start, (size_t)(end - start), true);
}

static bool take_define(reader *r, kilni_token *ret_last)
{
    kilni_token name;
    if (!next(r, &name)) {
        return false;
    }
    if (name.kind == KILNI_TOKEN_NEWLINE || name.kind == KILNI_TOKEN_END) {
        *ret_last = name;
        return true;
    }
    const char *rest = r->scanner.at;
    const char *end;
    if (!take_line(r, ret_last, &end)) {
        return false;
    }
    kilni_macro macro = {.name = name.text,
                         .name_length = name.length,
                         .rest = rest,
                         .rest_length = (size_t)(end - rest)};
    if (name.kind == KILNI_TOKEN_IDENTIFIER) {
        r->status = kilni_macros_define(r->macros, &macro);
    }
    return r->status == KILN_OK;
}

static bool take_pragma(reader *r, kilni_token *ret_last)
{
    const char *end, *start = r->scanner.at;
    r->scanner.in_prose = true;
    if (!take_line(r, ret_last, &end)) {
        return false;
    }
    const char *refusal = kilni_hazards_see_pragma(start, (size_t)(end - start));
    return refusal ? stop(r, refusal) : true;
}

static bool take_prose(reader *r, kilni_token *ret_last)
{
    const char *end;
    r->scanner.in_prose = true;
    return take_line(r, ret_last, &end);
}

static bool take_test(reader *r, kilni_token *ret_last)
{
    const char *end;
    r->in_test = true;
    bool taken = take_line(r, ret_last, &end);
    r->in_test = false;
    return taken;
}

static bool take_embed(reader *r, kilni_token *ret_last)
{
    (void)ret_last;
    return stop(r, "#embed");
}

static bool take_directive(reader *r, kilni_token *ret_last)
{
    static const struct {
        const char *name;
        bool (*take)(reader *r, kilni_token *ret_last);
    } known[] = {
        {"include", take_include}, {"include_next", take_include},
        {"import", take_include},  {"__include_macros", take_include},
        {"define", take_define},   {"pragma", take_pragma},
        {"error", take_prose},     {"warning", take_prose},
        {"ident", take_prose},     {"sccs", take_prose},
        {"ifdef", take_test},      {"ifndef", take_test},
        {"elifdef", take_test},    {"elifndef", take_test},
        {"undef", take_test},      {"embed", take_embed},
    };
    kilni_token name;
    if (!next(r, &name)) {
        return false;
    }
    if (name.kind == KILNI_TOKEN_NEWLINE || name.kind == KILNI_TOKEN_END) {
        *ret_last = name;
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (kilni_token_is(&name, known[i].name)) {
            return known[i].take(r, ret_last);
        }
    }
    const char *end;
    return take_line(r, ret_last, &end);
}

/* A line that is no directive, its first token taken. */
static bool take_code(reader *r, kilni_token first, kilni_token *ret_last)
{
    const char *end;
    if (is_has_include(&first)) {
        return stop(r, "a __has_include outside of a directive");
    }
    if (first.kind == KILNI_TOKEN_NEWLINE || first.kind == KILNI_TOKEN_END) {
        *ret_last = first;
        return true;
    }
    return take_line(r, ret_last, &end);
}

static bool take_all(reader *r)
{
    kilni_token last = {.kind = KILNI_TOKEN_NEWLINE};
    while (last.kind != KILNI_TOKEN_END) {
        kilni_token first;
        if (!next(r, &first)) {
            return false;
        }
        if (kilni_token_is_hash(&first) ? !take_directive(r, &last) : !take_code(r, first, &last)) {
            return false;
        }
    }
    return true;
}

kiln_status kilni_directives_read(const kilni_clean_text *text, kilni_macros *macros,
                                  kilni_hazards *hazards, kilni_directives *ret_directives,
                                  const char **ret_refusal)
{
    reader r = {.macros = macros, .hazards = hazards, .directives = ret_directives};
    *ret_directives = (kilni_directives){0};
    kilni_scanner_start(&r.scanner, text);
    take_all(&r);
    if (r.refusal) {
        *ret_refusal = r.refusal;
    }
    return r.status;
}

void kilni_directives_done(kilni_directives *directives)
{
    free(directives->includes);
    *directives = (kilni_directives){0};
}
