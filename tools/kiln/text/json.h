/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine-readable output. All functions end the tool if memory runs out.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns a number. A number above INT64_MAX, which is jansson's limit, becomes INT64_MAX. */
json_t *json_number(uint64_t number);

/* Returns a text whose origin is unknown. U+FFFD replaces each part that is not UTF-8. */
json_t *json_text(const char *text, size_t size);

/* Like json_text, but takes a text that ends with a zero byte. For NULL, returns null. */
json_t *json_text_or_null(const char *text);

/* Sets a member; takes over @value. */
void json_add(json_t *object, const char *name, json_t *value);

/* Appends @value to the array, and takes it over. */
void json_push(json_t *array, json_t *value);

/* Writes a value on one line and frees it. */
void json_print(FILE *file, json_t *value);
