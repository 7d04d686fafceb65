/* SPDX-License-Identifier: Apache-2.0 */
#include "refused_words.h"

#include <stddef.h>

#include "device/opencl/defeating_constant.h"

static const char *const words[] = {
    /* These read a clock. */
    "__DATE__", "__TIME__", "__TIMESTAMP__",
    /* These yield a file's name. */
    "__FILE__", "__BASE_FILE__", "__FILE_NAME__", "__builtin_FILE", "__builtin_FILE_NAME",
    "__builtin_source_location",
    /* These test whether a file exists. */
    "__has_include", "__has_include_next", "__has_embed",
    /* These let macros make a #pragma. */
    "_Pragma", "__pragma",
    /* These introduce assembly. */
    "asm", "__asm", "__asm__",
    /* These read a file in a #pragma. The first of them reads only the file's time. */
    "dependency", "include_alias", "include_instead", "module", "hdrstop", "implementation",
    /* The constant of PyOpenCL: see defeating_constant.h. */
    KILNI_DEFEATING_CONSTANT,
    /* These read a file in a directive. The ## operator cannot make a directive. */
    "include", "include_next", "import", "__include_macros", "embed"};

enum {
    PLACES = 3,
    FILES = 9,
    OPERATORS = 12,
    ASSEMBLY = 14,
    PRAGMAS = 17,
    CONSTANT = 23,
    DIRECTIVES = 24,
    END = 29
};

#define BITS(from, to) ((UINT64_C(1) << (to)) - (UINT64_C(1) << (from)))

const kilni_word_list kilni_opencl_words = {
    .words = words,
    .count = sizeof words / sizeof *words,
    .pasted_count = DIRECTIVES,
    .of_pragmas = BITS(PRAGMAS, CONSTANT),
    .pragma_operators = BITS(OPERATORS, ASSEMBLY),
    .beginnings = BITS(CONSTANT, DIRECTIVES),
    .also = KILNI_SEEN_PRAGMA_STRING | KILNI_SEEN_ASSEMBLY_FILE | KILNI_SEEN_OPEN_STRING |
            KILNI_SEEN_ESCAPE | KILNI_SEEN_STRING_OPERATOR | KILNI_SEEN_LONE_DOT,
};

static const char *first_of(uint64_t found, size_t from, size_t to)
{
    for (size_t n = from; n < to; n++) {
        if (found & UINT64_C(1) << n) {
            return words[n];
        }
    }
    return NULL;
}

/* Assembly that might include files is refused, because a compiler might assemble after the watch
 * has ended. A #pragma that asks for a file's time is refused, because Kiln does not record
 * times. */
const char *kilni_opencl_words_refusal(const kilni_words *seen)
{
    static const uint64_t dot_in_string = KILNI_SEEN_STRING_OPERATOR | KILNI_SEEN_LONE_DOT;
    const uint64_t found = kilni_words_found(seen);
    if (found & KILNI_SEEN_LONE_RETURN) {
        return KILNI_LONE_RETURN_REFUSAL;
    }
    if (((found & (KILNI_SEEN_ASSEMBLY_FILE | KILNI_SEEN_OPEN_STRING)) ||
         (found & dot_in_string) == dot_in_string) &&
        (found & BITS(ASSEMBLY, PRAGMAS))) {
        return "assembly that may include a file";
    }
    return found & UINT64_C(1) << PRAGMAS ? "a #pragma that asks for a file's time"
                                          : first_of(found, 0, PLACES);
}

bool kilni_opencl_words_ask_place(const kilni_words *seen)
{
    return kilni_words_found(seen) & BITS(PLACES, FILES);
}

bool kilni_opencl_words_ask_existence(const kilni_words *seen)
{
    return kilni_words_found(seen) & BITS(FILES, OPERATORS);
}

bool kilni_opencl_words_may_read(const kilni_words *seen)
{
    return kilni_words_found(seen) & (BITS(FILES, OPERATORS) | BITS(PRAGMAS, CONSTANT) |
                                      BITS(DIRECTIVES, END) | KILNI_SEEN_PRAGMA_STRING);
}

bool kilni_opencl_words_may_name_constant(const kilni_words *seen)
{
    /* Macros that compilers define by themselves can expand to these pieces of the name. */
    static const char predefined[] = "_ d o";
    kilni_words all = *seen;
    kilni_words_scan(&all, predefined, sizeof predefined - 1);
    return kilni_words_found(&all) & (BITS(CONSTANT, DIRECTIVES) | KILNI_SEEN_ESCAPE);
}
