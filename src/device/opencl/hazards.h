/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that make a build depend on more than its texts: the time, the place, files that no
 * include names. Collected over all texts of a build.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/word_pieces.h"
#include "scan.h"

/* Names to be found, also where ## puts them together. */
enum { KILNI_HAZARD_NAME_COUNT = 11 };

/* Zeroed, it has seen nothing. */
typedef struct kilni_hazards {
    uint16_t names_with[256]; /* bit n: the character is in name n; set up at the first token */
    bool is_set_up;
    kilni_word_pieces pieces[KILNI_HAZARD_NAME_COUNT];
    bool pastes;
    bool uses_file_name;       /* __FILE__ or the like: the build knows where it happened */
    bool has_pragma_operator;  /* _Pragma: a pragma that may be made of macros */
    bool has_pragma_file_word; /* a word of a pragma that names a file */
    bool has_assembly;
    bool has_assembly_file; /* what may be, or begin, ".incbin" or ".include", in a string or as
                               what # makes a string of */
    bool is_after_dot;
} kilni_hazards;

/* Takes note of a token. NULL, or why the text is refused; static. */
const char *kilni_hazards_see(kilni_hazards *hazards, const kilni_token *token);

/* Takes note of a line of a #pragma, or of what stands in _Pragma. NULL, or why it is refused. */
const char *kilni_hazards_see_pragma(const char *text, size_t length);

/* What follows from all texts together. NULL, or why the build is refused. */
const char *kilni_hazards_verdict(const kilni_hazards *hazards);
