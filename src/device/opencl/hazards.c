/* SPDX-License-Identifier: Apache-2.0 */
#include "hazards.h"

#include <string.h>
#include <strings.h>

typedef struct hazard_name {
    const char *text;
    const char *refusal; /* NULL: allowed as it stands, but not put together by ## */
    const char *pasted;
} hazard_name;

static const hazard_name names[KILNI_HAZARD_NAME_COUNT] = {
    {"__DATE__", "__DATE__", "## that can make __DATE__"},
    {"__TIME__", "__TIME__", "## that can make __TIME__"},
    {"__TIMESTAMP__", "__TIMESTAMP__", "## that can make __TIMESTAMP__"},
    {"__has_embed", "__has_embed", "## that can make __has_embed"},
    {"__has_include", NULL, "## that can make __has_include"},
    {"__has_include_next", NULL, "## that can make __has_include_next"},
    {"_Pragma", NULL, "## that can make _Pragma"},
    {"__pragma", "__pragma", "## that can make __pragma"},
    {"__FILE__", NULL, "## that can make __FILE__"},
    {"__BASE_FILE__", NULL, "## that can make __BASE_FILE__"},
    {"__FILE_NAME__", NULL, "## that can make __FILE_NAME__"},
};

static void set_up(kilni_hazards *hazards)
{
    for (size_t n = 0; n < KILNI_HAZARD_NAME_COUNT; n++) {
        for (const char *c = names[n].text; *c; c++) {
            hazards->names_with[(unsigned char)*c] |= (uint16_t)(1u << n);
        }
    }
    hazards->is_set_up = true;
}

/* Bit n: all characters of the token are in name n. Few tokens of a program have any. */
static unsigned names_of_same_characters(const kilni_hazards *hazards, const kilni_token *token)
{
    unsigned found = (1u << KILNI_HAZARD_NAME_COUNT) - 1;
    for (size_t i = 0; i < token->length && found; i++) {
        found &= hazards->names_with[(unsigned char)token->text[i]];
    }
    return found;
}

static const char *see_names(kilni_hazards *hazards, const kilni_token *token)
{
    const char *refusal = NULL;
    unsigned candidates = names_of_same_characters(hazards, token);
    for (size_t n = 0; candidates >> n && !refusal; n++) {
        if (candidates & 1u << n && kilni_word_pieces_note(&hazards->pieces[n], names[n].text,
                                                           token->text, token->length)) {
            refusal = names[n].refusal;
        }
    }
    return refusal;
}

static bool is_one_of(const kilni_token *token, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (kilni_token_is(token, words[i])) {
            return true;
        }
    }
    return false;
}

/* Words of pragmas that name files; "module" is that of "clang module import". */
static const char *const pragma_file_words[] = {"include_alias", "include_instead", "dependency",
                                                "module",        "hdrstop",         "embed",
                                                "implementation"};

static void see_words(kilni_hazards *hazards, const kilni_token *token)
{
    static const char *const places[] = {
        "__FILE__",       "__BASE_FILE__",       "__FILE_NAME__",
        "__builtin_FILE", "__builtin_FILE_NAME", "__builtin_source_location"};
    static const char *const assembly[] = {"asm", "__asm", "__asm__"};
    hazards->uses_file_name |= is_one_of(token, places, sizeof places / sizeof *places);
    hazards->has_assembly |= is_one_of(token, assembly, sizeof assembly / sizeof *assembly);
    hazards->has_pragma_operator |= kilni_token_is(token, "_Pragma");
    hazards->has_pragma_file_word |=
        is_one_of(token, pragma_file_words, sizeof pragma_file_words / sizeof *pragma_file_words);
}

static const char *see_identifier(kilni_hazards *hazards, const kilni_token *token)
{
    /* What all the words begin with. */
    if (strchr("_aidmhe", token->text[0])) {
        see_words(hazards, token);
    }
    return see_names(hazards, token);
}

static bool contains(const char *text, size_t length, const char *word)
{
    return memmem(text, length, word, strlen(word)) != NULL;
}

static bool names_pragma_file(const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof pragma_file_words / sizeof *pragma_file_words; i++) {
        if (contains(text, length, pragma_file_words[i])) {
            return true;
        }
    }
    return false;
}

/* Whether a directive of assemblers that reads a file begins here, as far as the text goes: where a
 * string ends, another may go on. Case doesn't matter to assemblers. */
static bool begins_file_directive(const char *text, size_t length)
{
    const size_t known = length < strlen("incb") ? length : strlen("incb");
    return strncasecmp(text, "incb", known) == 0 || strncasecmp(text, "incl", known) == 0;
}

static bool has_file_directive(const char *text, size_t length)
{
    const char *end = text + length;
    for (const char *dot = text; (dot = memchr(dot, '.', (size_t)(end - dot))) != NULL;) {
        dot++;
        if (begins_file_directive(dot, (size_t)(end - dot))) {
            return true;
        }
    }
    return false;
}

/* Escapes by number can stand for any character. */
static bool has_numbered_escape(const char *text, size_t length)
{
    for (size_t i = 0; i + 1 < length; i++) {
        if (text[i] == '\\') {
            i++;
            if (strchr("xuUN01234567", text[i]) && text[i] != '\0') {
                return true;
            }
        }
    }
    return false;
}

/* @token is a string. */
static bool may_name_assembly_file(const kilni_token *token)
{
    /* Without its quotes. */
    const char *text = token->text + 1;
    const size_t length = token->length - 2;
    return has_file_directive(text, length) || has_numbered_escape(text, length);
}

const char *kilni_hazards_see(kilni_hazards *hazards, const kilni_token *token)
{
    if (!hazards->is_set_up) {
        set_up(hazards);
    }
    const bool is_after_dot = hazards->is_after_dot;
    hazards->is_after_dot = kilni_token_is(token, ".");
    if (token->kind == KILNI_TOKEN_IDENTIFIER) {
        hazards->has_assembly_file |= is_after_dot && token->length >= strlen("incb") &&
                                      begins_file_directive(token->text, token->length);
        return see_identifier(hazards, token);
    }
    if (token->kind == KILNI_TOKEN_STRING) {
        hazards->has_pragma_file_word |= names_pragma_file(token->text, token->length);
        hazards->has_assembly_file |= may_name_assembly_file(token);
    }
    hazards->pastes |= token->length > 1 && kilni_token_is_paste(token);
    return NULL;
}

/* Pragmas whose strings name no file. */
static bool may_have_strings(const char *text, size_t length)
{
    static const char *const known[] = {
        "OPENCL",       "message",    "warning",          "push_macro",      "pop_macro",
        "clang",        "GCC",        "comment",          "diag_suppress",   "diag_default",
        "diag_warning", "diag_error", "nv_diag_suppress", "nv_diag_default", "region",
        "endregion",    "error"};
    kilni_scanner scanner;
    kilni_scanner_start_piece(&scanner, text, length);
    kilni_token first = kilni_scan_next(&scanner);
    return is_one_of(&first, known, sizeof known / sizeof *known);
}

const char *kilni_hazards_see_pragma(const char *text, size_t length)
{
    bool has_string = memchr(text, '"', length) || memchr(text, '<', length);
    if (names_pragma_file(text, length) || (has_string && !may_have_strings(text, length))) {
        return "a #pragma that may name a file";
    }
    return NULL;
}

const char *kilni_hazards_verdict(const kilni_hazards *hazards)
{
    for (size_t n = 0; hazards->pastes && n < KILNI_HAZARD_NAME_COUNT; n++) {
        if (kilni_word_pieces_make(&hazards->pieces[n], names[n].text)) {
            return names[n].pasted;
        }
    }
    if (hazards->has_pragma_operator && hazards->has_pragma_file_word) {
        return "a _Pragma that may name a file";
    }
    if (hazards->has_assembly && hazards->has_assembly_file) {
        return "assembly that includes a file";
    }
    return NULL;
}
