/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "memory.h"

json_t *json_number(uint64_t number)
{
    return must(json_integer(number > INT64_MAX ? INT64_MAX : (json_int_t)number));
}

json_t *json_text(const char *text, size_t size)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    const size_t replacement_size = sizeof replacement - 1;
    if (size > (SIZE_MAX - 1) / replacement_size) {
        must(NULL);
    }
    owned char *clean = must(malloc(size * replacement_size + 1));
    size_t length = 0;
    for (size_t i = 0; i < size;) {
        uint32_t character;
        size_t next = character_read(text + i, size - i, &character);
        memcpy(clean + length, next > 0 ? text + i : replacement,
               next > 0 ? next : replacement_size);
        length += next > 0 ? next : replacement_size;
        i += next > 0 ? next : 1;
    }
    return must(json_stringn(clean, length));
}

json_t *json_text_or_null(const char *text)
{
    return text == NULL ? json_null() : json_text(text, strlen(text));
}

void json_add(json_t *object, const char *name, json_t *value)
{
    must_succeed(json_object_set_new(object, name, value));
}

void json_push(json_t *array, json_t *value)
{
    must_succeed(json_array_append_new(array, value));
}

void json_print(FILE *file, json_t *value)
{
    owned char *text = must(json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY));
    json_decref(value);
    fprintf(file, "%s\n", text);
}
