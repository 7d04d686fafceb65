/* SPDX-License-Identifier: Apache-2.0
 *
 * The first phases of a C compiler over one text: line splices, comments, tokens. It goes no
 * further than finding includes and expanding macros needs.
 *
 * Where compilers read a text differently, so that one sees an include where another sees a
 * comment, the text is refused, with a reason for people.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/status.h>

/* A text without its line splices. */
typedef struct kilni_clean_text {
    char *bytes;
    size_t length;
    /* Where a splice was that had blanks between backslash and newline, which not every compiler
     * takes for one: offsets in bytes, ascending. */
    size_t *doubtful_splices;
    size_t doubtful_count;
} kilni_clean_text;

/* KILN_OK; KILN_E_UNSUPPORTED: the text is refused, for @ret_refusal (static); KILN_E_NO_MEMORY. */
kiln_status kilni_clean_text_make(const void *bytes, size_t size, kilni_clean_text *ret_text,
                                  const char **ret_refusal);
void kilni_clean_text_done(kilni_clean_text *text);

typedef enum kilni_token_kind {
    KILNI_TOKEN_END,
    KILNI_TOKEN_NEWLINE,
    KILNI_TOKEN_IDENTIFIER,
    KILNI_TOKEN_NUMBER,
    KILNI_TOKEN_STRING,    /* with its quotes */
    KILNI_TOKEN_CHARACTER, /* with its quotes */
    KILNI_TOKEN_OTHER      /* a punctuator: "##" and "%:%:" are one, the rest one byte each */
} kilni_token_kind;

/* Points into the text. */
typedef struct kilni_token {
    kilni_token_kind kind;
    bool after_space;
    bool final; /* a macro's own name within its expansion: not to be expanded any more */
    const char *text;
    size_t length;
} kilni_token;

typedef struct kilni_scanner {
    const char *at;
    const char *end;
    const kilni_clean_text *text; /* NULL for a piece of one that was scanned before */
    /* Within a line that compilers read as prose (#error, #warning, #pragma): whether a comment
     * begins there is not the same for all, so that it must end there too. */
    bool in_prose;
    const char *refusal; /* why the text is refused; static. From then on only ends are given */
} kilni_scanner;

void kilni_scanner_start(kilni_scanner *scanner, const kilni_clean_text *text);
void kilni_scanner_start_piece(kilni_scanner *scanner, const char *text, size_t length);

/* The next token. Comments are blanks; a newline within one is not a token. */
kilni_token kilni_scan_next(kilni_scanner *scanner);

/* Goes over blanks and comments to the next token or newline. */
void kilni_scan_blanks(kilni_scanner *scanner);

/* Takes "…" or <…> as a name of a header, with its delimiters. false: none stands here, and
 * nothing was taken. */
bool kilni_scan_header_name(kilni_scanner *scanner, kilni_token *ret_name);

bool kilni_token_is(const kilni_token *token, const char *text);
bool kilni_token_is_hash(const kilni_token *token);
bool kilni_token_is_paste(const kilni_token *token);
