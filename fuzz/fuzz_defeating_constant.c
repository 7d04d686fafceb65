/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as a source. If it ends with a defeating constant and is said to be unable to
 * name it, no name in it begins as the constant's name, neither as it is nor without its line
 * splices.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/opencl/defeating_constant.h"
#include "device/opencl/refused_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static bool contains_name(const char *text, size_t size)
{
    return memmem(text, size, KILNI_DEFEATING_CONSTANT, strlen(KILNI_DEFEATING_CONSTANT)) != NULL;
}

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Requires that no name of the text begins as the constant's name. */
static void check_names(const char *text, size_t size)
{
    const size_t length = strlen(KILNI_DEFEATING_CONSTANT);
    for (const char *at = text; (size_t)(text + size - at) >= length; at++) {
        const bool begins = at == text || !is_name_character(at[-1]);
        require(!begins || memcmp(at, KILNI_DEFEATING_CONSTANT, length) != 0);
    }
}

/* Removes backslashes and newlines that follow each other, and nothing else. */
static size_t remove_splices(const char *text, size_t size, char *ret_rest)
{
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\\' && i + 1 < size && text[i + 1] == '\n') {
            i++;
        } else {
            ret_rest[length++] = text[i];
        }
    }
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const kiln_program_source source = {
        .struct_size = sizeof source, .form = KILN_SOURCE_TEXT, .code = {data, size}};
    size_t own = 0;
    if (!kilni_opencl_ends_with_defeating_constant(&source, &own)) {
        return 0;
    }
    require(own < size && contains_name(text + own, size - own));
    kilni_words words = {.list = &kilni_opencl_words};
    kilni_words_scan(&words, text, own);
    if (kilni_opencl_words_may_name_constant(&words)) {
        return 0;
    }
    char *rest = malloc(own + 1);
    require(rest != NULL);
    check_names(text, own);
    check_names(rest, remove_splices(text, own, rest));
    free(rest);
    return 0;
}
