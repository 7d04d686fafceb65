/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "key/builder.h"
#include "options.h"
#include "traits.h"

/* ---- words ---- */

static const char *const words[] = {
    /* A clock. */
    "__DATE__", "__TIME__", "__TIMESTAMP__",
    /* A file's name. */
    "__FILE__", "__BASE_FILE__", "__FILE_NAME__", "__builtin_FILE", "__builtin_FILE_NAME",
    "__builtin_source_location",
    /* A file. */
    "__has_include", "__has_include_next", "__has_embed",
    /* Pragmas that macros may make. */
    "_Pragma", "__pragma",
    /* Assembly. */
    "asm", "__asm", "__asm__",
    /* A file, by pragmas; the first for its time. */
    "dependency", "include_alias", "include_instead", "module", "hdrstop", "implementation",
    /* A file, by directives, of which ## can make none. */
    "include", "include_next", "import", "__include_macros", "embed"};

enum {
    PLACES = 3,
    FILES = 9,
    OPERATORS = 12,
    ASSEMBLY = 14,
    PRAGMAS = 17,
    DIRECTIVES = 23,
    END = 28
};

#define BITS(from, to) ((UINT32_C(1) << (to)) - (UINT32_C(1) << (from)))

const kilni_word_list kilni_opencl_words = {
    .words = words,
    .count = sizeof words / sizeof *words,
    .pasted_count = DIRECTIVES,
    .of_pragmas = BITS(PRAGMAS, DIRECTIVES),
    .pragma_operators = BITS(OPERATORS, ASSEMBLY),
    .also = KILNI_SEEN_PRAGMA_STRING | KILNI_SEEN_ASSEMBLY_FILE | KILNI_SEEN_OPEN_STRING,
};

static const char *first_of(uint32_t found, size_t from, size_t to)
{
    for (size_t n = from; n < to; n++) {
        if (found & UINT32_C(1) << n) {
            return words[n];
        }
    }
    return NULL;
}

/* A compiler may assemble later than it reads, and of a file's time nothing is noted. */
const char *kilni_opencl_words_refusal(const kilni_words *seen)
{
    const uint32_t found = kilni_words_found(seen);
    if (found & KILNI_SEEN_LONE_RETURN) {
        return "a carriage return without a newline";
    }
    if ((found & (KILNI_SEEN_ASSEMBLY_FILE | KILNI_SEEN_OPEN_STRING)) &&
        (found & BITS(ASSEMBLY, PRAGMAS))) {
        return "assembly that may include a file";
    }
    return found & UINT32_C(1) << PRAGMAS ? "a #pragma that asks for a file's time"
                                          : first_of(found, 0, PLACES);
}

bool kilni_opencl_words_ask_place(const kilni_words *seen)
{
    return kilni_words_found(seen) & BITS(PLACES, FILES);
}

static bool may_read(const kilni_words *seen)
{
    return kilni_words_found(seen) &
           (BITS(FILES, OPERATORS) | BITS(PRAGMAS, END) | KILNI_SEEN_PRAGMA_STRING);
}

/* ---- texts ---- */

/* As they stand, and without what drivers may take away. */
static kiln_status see_options(const char *options, kilni_words *seen)
{
    if (!options) {
        return KILN_OK;
    }
    char *bare = strdup(options), *end = bare;
    if (!bare) {
        return KILN_E_NO_MEMORY;
    }
    for (const char *c = options; *c; c++) {
        if (*c != '"' && *c != '\\' && *c != '\'') {
            *end++ = *c;
        }
    }
    kilni_words_scan(seen, options, strlen(options));
    kilni_words_scan(seen, bare, (size_t)(end - bare));
    free(bare);
    return KILN_OK;
}

static kiln_status see_all_options(const kiln_program_source *source, kilni_words *seen,
                                   kiln_error *error)
{
    kiln_status status = kilni_opencl_options_check(source->options, "the options", error);
    if (status == KILN_OK) {
        status = see_options(source->options, seen);
    }
    for (const char *const *name = kilni_opencl_option_variables; *name && status == KILN_OK;
         name++) {
        status = kilni_opencl_options_check(getenv(*name), *name, error);
        if (status == KILN_OK) {
            status = see_options(getenv(*name), seen);
        }
    }
    return status;
}

static kiln_status see_texts(const kiln_program_source *source, const kilni_opencl_headers *headers,
                             kilni_words *seen, kiln_error *error)
{
    const kiln_status status = see_all_options(source, seen, error);
    if (status != KILN_OK || source->form != KILN_SOURCE_TEXT) {
        return status;
    }
    kilni_words_scan(seen, source->code.data, source->code.size);
    for (size_t i = 0; i < headers->count; i++) {
        kilni_words_scan(seen, headers->texts[i].data, headers->texts[i].size);
    }
    const char *refusal = kilni_opencl_words_refusal(seen);
    return refusal ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s", refusal) : KILN_OK;
}

/* ---- the key ---- */

static void add_given(const kiln_program_source *source, const kilni_opencl_headers *headers,
                      kiln_key_builder *key)
{
    const char *name = source->form == KILN_SOURCE_IL ? "il" : "source";
    if (source->options) {
        kiln_key_builder_add_text(key, "options", source->options);
    }
    kiln_key_builder_add(key, name, source->code.data, source->code.size);
    for (size_t i = 0; i < headers->count; i++) {
        kiln_key_builder_add_text(key, "header", headers->names[i]);
        kiln_key_builder_add(key, "header.content", headers->texts[i].data, headers->texts[i].size);
    }
}

static kiln_status add_working_directory(kiln_key_builder *key)
{
    char *path = getcwd(NULL, 0);
    const kiln_status status =
        path ? kiln_key_builder_add_text(key, "working directory", path) : KILN_E_UNSUPPORTED;
    free(path);
    return status;
}

kiln_status kilni_opencl_add_inputs(const kiln_program_source *source,
                                    const kilni_opencl_headers *headers, bool can_watch,
                                    kiln_key_builder *key, kilni_opencl_texts *ret_texts,
                                    kiln_error *error)
{
    kilni_opencl_texts texts = {.words.list = &kilni_opencl_words};
    kiln_status status = see_texts(source, headers, &texts.words, error);
    if (status != KILN_OK) {
        return status;
    }
    const bool is_text = source->form == KILN_SOURCE_TEXT;
    texts.may_read = is_text && may_read(&texts.words);
    if (texts.may_read && !can_watch) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "it may include files, and this driver can't be watched");
    }
    add_given(source, headers, key);
    if (is_text && kilni_opencl_words_ask_place(&texts.words)) {
        status = add_working_directory(key);
    }
    if (texts.may_read) {
        status = kiln_key_builder_add_text(key, "reads", "in the entry");
    }
    status = kilni_key_builder_fail(key, status);
    *ret_texts = texts;
    /* More parts than a key may have, or larger ones, are nothing that a build can't live with. */
    return status == KILN_E_TOO_LARGE
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the inputs are too large for a key")
               : status;
}

kiln_status kilni_opencl_add_link_inputs(const char *options, size_t count,
                                         const kiln_key *const *inputs, kiln_key_builder *key,
                                         kiln_error *error)
{
    kiln_status status = kilni_opencl_link_options_check(options, error);
    if (status == KILN_OK && options) {
        status = kiln_key_builder_add_text(key, "options", options);
    }
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        size_t size = 0;
        const void *encoding = kiln_key_encoding(inputs[i], &size);
        status = kiln_key_builder_add(key, "input", encoding, size);
    }
    return status == KILN_E_TOO_LARGE
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the inputs are too large for a key")
               : status;
}
