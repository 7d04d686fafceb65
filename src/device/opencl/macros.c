/* SPDX-License-Identifier: Apache-2.0
 *
 * Expansion by the C rules: arguments are expanded before they are put in, but beside # and ##;
 * the result is scanned again together with what follows; a macro's own name within its expansion
 * stays. A combination of definitions that comes to no header name is one that the compiler
 * refuses; at least one must come to one.
 */
#include "macros.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "scan.h"

enum {
    MAX_COMBINATIONS = 256,
    MAX_CHOICES = 64,
    MAX_FRAMES = 64,
    MAX_PARAMETERS = 16,
    MAX_WORK = 20000, /* tokens made in one combination */
    MAX_NAME = 4096
};

typedef struct token_list {
    kilni_token *tokens;
    size_t count;
    size_t capacity;
} token_list;

/* Memory of one combination, freed as one. */
typedef struct block {
    struct block *next;
    max_align_t bytes[];
} block;

/* Which of a name's definitions counts in this combination. */
typedef struct choice {
    const kilni_macro *first; /* the definitions of one name stand together */
    size_t count;
    size_t taken; /* equal to count: the name is not defined */
} choice;

/* A macro as the expansion needs it. */
typedef struct definition {
    const kilni_macro *macro;
    bool takes_arguments;
    bool variadic;
    size_t parameter_count;
    kilni_token parameters[MAX_PARAMETERS];
    token_list body;
} definition;

/* Tokens to be read, and the macro that they came from: it is not expanded meanwhile. */
typedef struct frame {
    const kilni_token *tokens;
    size_t count;
    size_t at;
    const kilni_macro *macro;
} frame;

typedef struct expansion {
    const kilni_macros *macros;
    choice choices[MAX_CHOICES];
    size_t choice_count;
    frame frames[MAX_FRAMES];
    size_t frame_count;
    block *blocks;
    size_t work;
    bool doubtful;       /* a name stands as it is that the compiler may define */
    bool invalid;        /* a compiler refuses this combination */
    const char *refusal; /* this can't be told */
    kiln_status status;
} expansion;

/* ---- the definitions ---- */

kiln_status kilni_macros_define(kilni_macros *macros, const kilni_macro *macro)
{
    if (macros->count == macros->capacity) {
        size_t capacity = macros->capacity ? 2 * macros->capacity : 64;
        kilni_macro *grown = realloc(macros->items, capacity * sizeof *grown);
        if (!grown) {
            return KILN_E_NO_MEMORY;
        }
        macros->items = grown;
        macros->capacity = capacity;
    }
    macros->items[macros->count++] = *macro;
    return KILN_OK;
}

void kilni_macros_done(kilni_macros *macros)
{
    free(macros->items);
    *macros = (kilni_macros){0};
}

static int compare_bytes(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

static int compare_macros(const void *a, const void *b)
{
    const kilni_macro *x = a, *y = b;
    int order = compare_bytes(x->name, x->name_length, y->name, y->name_length);
    return order ? order : compare_bytes(x->rest, x->rest_length, y->rest, y->rest_length);
}

/* Equal definitions become one. */
static void sort_macros(kilni_macros *macros)
{
    if (macros->sorted_count == macros->count) {
        return;
    }
    qsort(macros->items, macros->count, sizeof *macros->items, compare_macros);
    size_t kept = 1;
    for (size_t i = 1; i < macros->count; i++) {
        if (compare_macros(&macros->items[kept - 1], &macros->items[i]) != 0) {
            macros->items[kept++] = macros->items[i];
        }
    }
    macros->count = macros->sorted_count = kept;
}

static int compare_name(const kilni_token *name, const kilni_macro *macro)
{
    return compare_bytes(name->text, name->length, macro->name, macro->name_length);
}

/* The definitions of a name: how many, from @ret_first on. */
static size_t find_macros(const kilni_macros *macros, const kilni_token *name,
                          const kilni_macro **ret_first)
{
    size_t low = 0, high = macros->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_name(name, &macros->items[middle]) > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t count = 0;
    while (low + count < macros->count && compare_name(name, &macros->items[low + count]) == 0) {
        count++;
    }
    *ret_first = count ? &macros->items[low] : NULL;
    return count;
}

/* ---- memory and ends of a combination ---- */

static bool stop_refused(expansion *x, const char *why)
{
    x->refusal = why;
    return false;
}

static bool stop_invalid(expansion *x)
{
    x->invalid = true;
    return false;
}

static bool stop_no_memory(expansion *x)
{
    x->status = KILN_E_NO_MEMORY;
    return false;
}

static void *allocate(expansion *x, size_t size)
{
    block *made = malloc(sizeof *made + size);
    if (!made) {
        stop_no_memory(x);
        return NULL;
    }
    made->next = x->blocks;
    x->blocks = made;
    return made->bytes;
}

static void free_blocks(expansion *x)
{
    while (x->blocks) {
        block *next = x->blocks->next;
        free(x->blocks);
        x->blocks = next;
    }
}

static bool append(expansion *x, token_list *list, kilni_token token)
{
    if (++x->work > MAX_WORK) {
        return stop_refused(x, "an include made by too large a macro");
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        kilni_token *grown = allocate(x, capacity * sizeof *grown);
        if (!grown) {
            return false;
        }
        if (list->count > 0) {
            memcpy(grown, list->tokens, list->count * sizeof *grown);
        }
        list->tokens = grown;
        list->capacity = capacity;
    }
    list->tokens[list->count++] = token;
    return true;
}

static bool append_list(expansion *x, token_list *list, const token_list *more)
{
    for (size_t i = 0; i < more->count; i++) {
        if (!append(x, list, more->tokens[i])) {
            return false;
        }
    }
    return true;
}

static bool scan_all(expansion *x, kilni_scanner *scanner, token_list *list)
{
    for (;;) {
        kilni_token token = kilni_scan_next(scanner);
        if (scanner->refusal) {
            return stop_refused(x, scanner->refusal);
        }
        if (token.kind == KILNI_TOKEN_END || token.kind == KILNI_TOKEN_NEWLINE) {
            return true;
        }
        if (!append(x, list, token)) {
            return false;
        }
    }
}

/* ---- reading a definition ---- */

/* Reads parameters up to the closing parenthesis. */
static bool read_parameters(expansion *x, kilni_scanner *scanner, definition *d)
{
    static const kilni_token variadic_name = {
        .kind = KILNI_TOKEN_IDENTIFIER, .text = "__VA_ARGS__", .length = sizeof "__VA_ARGS__" - 1};
    for (;;) {
        kilni_token token = kilni_scan_next(scanner);
        if (kilni_token_is(&token, ")")) {
            return true;
        }
        if (token.kind == KILNI_TOKEN_END || d->variadic || d->parameter_count == MAX_PARAMETERS) {
            return stop_refused(x, "a macro with parameters that can't be read");
        }
        if (token.kind == KILNI_TOKEN_IDENTIFIER) {
            d->parameters[d->parameter_count++] = token;
            token = kilni_scan_next(scanner);
        } else if (kilni_token_is(&token, ".")) {
            d->parameters[d->parameter_count++] = variadic_name;
        }
        if (kilni_token_is(&token, ".")) {
            d->variadic = true;
            kilni_scan_next(scanner);
            kilni_scan_next(scanner);
            token = kilni_scan_next(scanner);
        }
        if (kilni_token_is(&token, ")")) {
            return true;
        }
        if (!kilni_token_is(&token, ",")) {
            return stop_refused(x, "a macro with parameters that can't be read");
        }
    }
}

static bool read_definition(expansion *x, const kilni_macro *macro, definition *d)
{
    *d = (definition){.macro = macro};
    kilni_scanner scanner;
    kilni_scanner_start_piece(&scanner, macro->rest, macro->rest_length);
    if (macro->rest_length > 0 && *macro->rest == '(') {
        d->takes_arguments = true;
        kilni_scan_next(&scanner);
        if (!read_parameters(x, &scanner, d)) {
            return false;
        }
    }
    if (!scan_all(x, &scanner, &d->body)) {
        return false;
    }
    if (d->body.count > 0) {
        d->body.tokens[0].after_space = false;
    }
    return true;
}

static size_t parameter_at(const definition *d, size_t i)
{
    size_t p = 0;
    while (d->takes_arguments && i < d->body.count && p < d->parameter_count) {
        const kilni_token *name = &d->parameters[p];
        const kilni_token *token = &d->body.tokens[i];
        if (token->kind == KILNI_TOKEN_IDENTIFIER &&
            compare_bytes(token->text, token->length, name->text, name->length) == 0) {
            return p;
        }
        p++;
    }
    return SIZE_MAX;
}

/* ---- which definition ---- */

static bool is_any_of(const kilni_token *name, const char *const *words, size_t count,
                      bool prefixes)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(words[i]);
        if ((prefixes ? name->length >= length : name->length == length) &&
            memcmp(name->text, words[i], length) == 0) {
            return true;
        }
    }
    return false;
}

/* A name that compilers define, whatever the texts say. */
static bool is_predefined(const kilni_token *name)
{
    static const char *const words[] = {"linux", "unix", "i386", "NULL"};
    static const char *const prefixes[] = {"cl_",      "CL_",     "CLK_",   "__OPENCL",
                                           "__opencl", "__clang", "__GNUC", "__SPIR",
                                           "__ENDIAN", "__NV_",   "__AMD",  "__llvm"};
    return is_any_of(name, words, sizeof words / sizeof *words, false) ||
           is_any_of(name, prefixes, sizeof prefixes / sizeof *prefixes, true);
}

static bool is_doubtful(const kilni_token *name, size_t definition_count)
{
    return is_predefined(name) || (definition_count == 0 && name->text[0] == '_');
}

/* Sets the definition that counts in this combination; NULL: the name is not defined. */
static bool choose(expansion *x, const kilni_token *name, const kilni_macro **ret_macro)
{
    *ret_macro = NULL;
    const kilni_macro *first;
    size_t count = find_macros(x->macros, name, &first);
    bool doubtful = is_doubtful(name, count);
    x->doubtful |= doubtful;
    if (doubtful || count == 0) {
        return true;
    }
    size_t i = 0;
    while (i < x->choice_count && x->choices[i].first != first) {
        i++;
    }
    if (i == MAX_CHOICES) {
        return stop_refused(x, "an include made by too many macros");
    }
    if (i == x->choice_count) {
        x->choices[x->choice_count++] = (choice){.first = first, .count = count};
    }
    if (x->choices[i].taken < count) {
        *ret_macro = first + x->choices[i].taken;
    }
    return true;
}

/* Goes on to the next combination. false: that was the last. */
static bool next_combination(expansion *x)
{
    while (x->choice_count > 0) {
        choice *last = &x->choices[x->choice_count - 1];
        if (last->taken < last->count) {
            last->taken++;
            return true;
        }
        x->choice_count--;
    }
    return false;
}

/* ---- reading tokens ---- */

static bool push(expansion *x, const token_list *list, const kilni_macro *macro)
{
    if (x->frame_count == MAX_FRAMES) {
        return stop_refused(x, "an include made by macros nested too deeply");
    }
    x->frames[x->frame_count++] =
        (frame){.tokens = list->tokens, .count = list->count, .macro = macro};
    return true;
}

/* The next token of the frames from @base on; NULL at their end. */
static const kilni_token *peek(const expansion *x, size_t base)
{
    for (size_t i = x->frame_count; i > base; i--) {
        const frame *f = &x->frames[i - 1];
        if (f->at < f->count) {
            return &f->tokens[f->at];
        }
    }
    return NULL;
}

static bool take(expansion *x, size_t base, kilni_token *ret_token)
{
    while (x->frame_count > base) {
        frame *f = &x->frames[x->frame_count - 1];
        if (f->at < f->count) {
            *ret_token = f->tokens[f->at++];
            return true;
        }
        x->frame_count--;
    }
    return false;
}

static bool is_disabled(const expansion *x, const kilni_macro *macro)
{
    for (size_t i = 0; i < x->frame_count; i++) {
        if (x->frames[i].macro == macro) {
            return true;
        }
    }
    return false;
}

/* ---- arguments ---- */

/* Takes the arguments behind a macro's name, its opening parenthesis first. */
static bool take_arguments(expansion *x, size_t base, const definition *d, token_list *arguments,
                           size_t *ret_count)
{
    kilni_token token;
    size_t depth = 0, count = 0;
    while (take(x, base, &token)) {
        bool open = kilni_token_is(&token, "("), close = kilni_token_is(&token, ")");
        depth += open;
        if (open && depth == 1) {
            continue;
        }
        if (close && --depth == 0) {
            *ret_count = count + 1;
            return true;
        }
        bool rest = d->variadic && count + 1 >= d->parameter_count;
        if (kilni_token_is(&token, ",") && depth == 1 && !rest) {
            if (++count == MAX_PARAMETERS) {
                return stop_invalid(x);
            }
            continue;
        }
        if (!append(x, &arguments[count], token)) {
            return false;
        }
    }
    return stop_invalid(x);
}

/* Whether so many arguments fit; a call without any has one that is empty. */
static bool argument_count_fits(const definition *d, const token_list *arguments, size_t count)
{
    if (d->parameter_count == 0) {
        return count == 1 && arguments[0].count == 0;
    }
    return count == d->parameter_count || (d->variadic && count + 1 == d->parameter_count);
}

/* ---- # and ## ---- */

static bool stringify(expansion *x, const token_list *argument, kilni_token *ret_token)
{
    size_t size = 3;
    for (size_t i = 0; i < argument->count; i++) {
        size += 1 + 2 * argument->tokens[i].length;
    }
    char *text = allocate(x, size);
    if (!text) {
        return false;
    }
    char *at = text;
    *at++ = '"';
    for (size_t i = 0; i < argument->count; i++) {
        const kilni_token *token = &argument->tokens[i];
        bool quoted = token->kind == KILNI_TOKEN_STRING || token->kind == KILNI_TOKEN_CHARACTER;
        if (i > 0 && token->after_space) {
            *at++ = ' ';
        }
        for (size_t c = 0; c < token->length; c++) {
            if (quoted && strchr("\"\\", token->text[c])) {
                *at++ = '\\';
            }
            *at++ = token->text[c];
        }
    }
    *at++ = '"';
    *ret_token =
        (kilni_token){.kind = KILNI_TOKEN_STRING, .text = text, .length = (size_t)(at - text)};
    return true;
}

/* Makes one token of two. */
static bool paste(expansion *x, kilni_token *left, const kilni_token *right)
{
    size_t length = left->length + right->length;
    char *text = allocate(x, length + 1);
    if (!text) {
        return false;
    }
    memcpy(text, left->text, left->length);
    memcpy(text + left->length, right->text, right->length);
    text[length] = '\0';
    kilni_scanner scanner;
    kilni_scanner_start_piece(&scanner, text, length);
    kilni_token token = kilni_scan_next(&scanner);
    if (scanner.refusal || token.length != length) {
        return stop_refused(x, "an include made by ## of what is no token");
    }
    token.after_space = left->after_space;
    *left = token;
    return true;
}

/* ---- expansion ---- */

static bool expand_tokens(expansion *x, const token_list *tokens, token_list *result);

static bool is_paste_at(const definition *d, size_t i)
{
    return i < d->body.count && kilni_token_is_paste(&d->body.tokens[i]);
}

/* #parameter, of which the parameter is at @i. */
static bool read_text_operand(expansion *x, const definition *d, const token_list *arguments,
                              size_t i, token_list *ret_tokens)
{
    size_t parameter = parameter_at(d, i);
    kilni_token text;
    if (parameter == SIZE_MAX) {
        return stop_invalid(x);
    }
    if (!stringify(x, &arguments[parameter], &text)) {
        return false;
    }
    text.after_space = d->body.tokens[i - 1].after_space;
    return append(x, ret_tokens, text);
}

/* What stands at @i of a body: an argument, whole or expanded, or the token itself. */
static bool read_plain_operand(expansion *x, const definition *d, const token_list *arguments,
                               size_t i, bool whole, token_list *ret_tokens)
{
    size_t parameter = parameter_at(d, i);
    if (parameter == SIZE_MAX) {
        return append(x, ret_tokens, d->body.tokens[i]);
    }
    if (whole ? !append_list(x, ret_tokens, &arguments[parameter])
              : !expand_tokens(x, &arguments[parameter], ret_tokens)) {
        return false;
    }
    if (ret_tokens->count > 0) {
        ret_tokens->tokens[0].after_space = d->body.tokens[i].after_space;
    }
    return true;
}

/* Reads the operand that begins at @io_at, and leaves that at its last token. */
static bool read_operand(expansion *x, const definition *d, const token_list *arguments,
                         bool pasting, size_t *io_at, token_list *ret_tokens)
{
    bool text = d->takes_arguments && kilni_token_is_hash(&d->body.tokens[*io_at]);
    *io_at += text;
    bool whole = pasting || is_paste_at(d, *io_at + 1);
    if (whole && d->variadic && parameter_at(d, *io_at) + 1 == d->parameter_count) {
        return stop_refused(x, "an include made by ## of a variable number of arguments");
    }
    *ret_tokens = (token_list){0};
    return text ? read_text_operand(x, d, arguments, *io_at, ret_tokens)
                : read_plain_operand(x, d, arguments, *io_at, whole, ret_tokens);
}

/* Appends an operand; its first token becomes one with the last of the result where @join. */
static bool append_operand(expansion *x, token_list *result, const token_list *operand, bool join)
{
    if (join && !paste(x, &result->tokens[result->count - 1], &operand->tokens[0])) {
        return false;
    }
    for (size_t i = join; i < operand->count; i++) {
        if (!append(x, result, operand->tokens[i])) {
            return false;
        }
    }
    return true;
}

/* The body with its arguments put in. */
static bool substitute(expansion *x, const definition *d, const token_list *arguments,
                       token_list *result)
{
    bool pasting = false;    /* ## stands before this place */
    bool left_empty = false; /* and nothing stood before that */
    for (size_t i = 0; i < d->body.count; i++) {
        token_list operand;
        if (is_paste_at(d, i)) {
            if (i == 0 || i + 1 == d->body.count || pasting) {
                return stop_invalid(x);
            }
            pasting = true;
            continue;
        }
        if (!read_operand(x, d, arguments, pasting, &i, &operand)) {
            return false;
        }
        bool join = pasting && !left_empty && operand.count > 0;
        if (!append_operand(x, result, &operand, join)) {
            return false;
        }
        left_empty = operand.count == 0 && (!pasting || left_empty);
        pasting = false;
    }
    return true;
}

/* Puts a macro's expansion before what is to be read. */
static bool replace(expansion *x, size_t base, const definition *d, bool after_space)
{
    token_list arguments[MAX_PARAMETERS] = {0};
    token_list result = {0};
    size_t count = 0;
    if (d->takes_arguments && (!take_arguments(x, base, d, arguments, &count) ||
                               !(argument_count_fits(d, arguments, count) || stop_invalid(x)))) {
        return false;
    }
    if (!substitute(x, d, arguments, &result)) {
        return false;
    }
    if (result.count > 0) {
        result.tokens[0].after_space = after_space;
    }
    return push(x, &result, d->macro);
}

static bool expand_name(expansion *x, size_t base, kilni_token *token, token_list *result)
{
    if (kilni_token_is(token, "__VA_OPT__")) {
        return stop_refused(x, "an include made by __VA_OPT__");
    }
    const kilni_macro *macro;
    if (!choose(x, token, &macro)) {
        return false;
    }
    if (macro && is_disabled(x, macro)) {
        token->final = true;
        return append(x, result, *token);
    }
    definition d = {0};
    if (macro && !read_definition(x, macro, &d)) {
        return false;
    }
    const kilni_token *next = peek(x, base);
    bool call = next && kilni_token_is(next, "(");
    if (!macro || (d.takes_arguments && !call)) {
        return append(x, result, *token);
    }
    return replace(x, base, &d, token->after_space);
}

static bool expand_tokens(expansion *x, const token_list *tokens, token_list *result)
{
    size_t base = x->frame_count;
    if (!push(x, tokens, NULL)) {
        return false;
    }
    kilni_token token;
    while (take(x, base, &token)) {
        bool name = token.kind == KILNI_TOKEN_IDENTIFIER && !token.final;
        if (name ? !expand_name(x, base, &token, result) : !append(x, result, token)) {
            return false;
        }
    }
    return true;
}

/* ---- from tokens to header names ---- */

typedef struct finder {
    kilni_header_name_fn found;
    void *user;
} finder;

/* Joins the tokens of <…>, with their blanks or without. 0: no closing bracket, or too long. */
static size_t join(const token_list *tokens, bool blanks, char *name)
{
    size_t length = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        const kilni_token *token = &tokens->tokens[i];
        if (token->length + 1 > MAX_NAME - length) {
            return 0;
        }
        if (blanks && i > 0 && token->after_space) {
            name[length++] = ' ';
        }
        memcpy(name + length, token->text, token->length);
        length += token->length;
        if (kilni_token_is(token, ">")) {
            return length;
        }
    }
    return 0;
}

/* Compilers differ in whether a blank between the tokens of <…> stays: both are named. */
static bool find_bracketed(expansion *x, const token_list *tokens, const finder *f)
{
    char name[MAX_NAME];
    for (int blanks = 0; blanks < 2; blanks++) {
        size_t length = join(tokens, blanks, name);
        if (length == 0) {
            return stop_invalid(x);
        }
        if (memchr(name, '\\', length)) {
            return stop_refused(x, "an include with a name that can't be read");
        }
        x->status = f->found(f->user, name, length);
        if (x->status != KILN_OK) {
            return false;
        }
    }
    return true;
}

/* What the tokens begin with decides whether they are a header name at all: only what a name of the
 * compiler's own begins, or is within a header name, can't be told. */
static bool is_told(const expansion *x, const token_list *tokens)
{
    const kilni_token *first = tokens->tokens;
    if (!x->doubtful || tokens->count == 0) {
        return true;
    }
    return first->kind == KILNI_TOKEN_IDENTIFIER
               ? !is_doubtful(first, find_macros(x->macros, first, &(const kilni_macro *){NULL}))
               : first->kind != KILNI_TOKEN_STRING && !kilni_token_is(first, "<");
}

static bool find_name(expansion *x, const token_list *tokens, const finder *f)
{
    const kilni_token *first = tokens->tokens;
    if (!is_told(x, tokens)) {
        return stop_refused(x, "an include made by a macro of the compiler");
    }
    if (tokens->count == 0) {
        return stop_invalid(x);
    }
    if (first->kind == KILNI_TOKEN_STRING) {
        if (first->length > MAX_NAME || memchr(first->text, '\\', first->length)) {
            return stop_refused(x, "an include with a name that can't be read");
        }
        x->status = f->found(f->user, first->text, first->length);
        return x->status == KILN_OK;
    }
    return kilni_token_is(first, "<") ? find_bracketed(x, tokens, f) : stop_invalid(x);
}

static bool try_combination(expansion *x, const char *text, size_t length, const finder *f)
{
    token_list tokens = {0}, result = {0};
    kilni_scanner scanner;
    kilni_scanner_start_piece(&scanner, text, length);
    x->frame_count = 0;
    x->work = 0;
    x->invalid = x->doubtful = false;
    bool found = scan_all(x, &scanner, &tokens) && expand_tokens(x, &tokens, &result) &&
                 find_name(x, &result, f);
    free_blocks(x);
    return found;
}

static kiln_status try_all(expansion *x, const char *text, size_t length, const finder *f)
{
    bool any = false;
    for (size_t i = 0; i < MAX_COMBINATIONS; i++) {
        if (try_combination(x, text, length, f)) {
            any = true;
        } else if (!x->invalid) {
            return x->refusal ? KILN_E_UNSUPPORTED : x->status;
        }
        if (!next_combination(x)) {
            x->refusal = "an include that no known macro explains";
            return any ? KILN_OK : KILN_E_UNSUPPORTED;
        }
    }
    x->refusal = "an include made by macros with too many definitions";
    return KILN_E_UNSUPPORTED;
}

kiln_status kilni_macros_expand_include(kilni_macros *macros, const char *text, size_t length,
                                        kilni_header_name_fn found, void *user,
                                        const char **ret_refusal)
{
    sort_macros(macros);
    expansion *x = calloc(1, sizeof *x);
    if (!x) {
        return KILN_E_NO_MEMORY;
    }
    x->macros = macros;
    kiln_status status = try_all(x, text, length, &(finder){found, user});
    if (status == KILN_E_UNSUPPORTED && x->refusal) {
        *ret_refusal = x->refusal;
    }
    free(x);
    return status;
}
