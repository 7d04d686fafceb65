/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine-readable output. All functions end the tool if there is no memory.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns a number. A number above INT64_MAX, which is jansson's limit, becomes INT64_MAX. */
json_t *json_number(uint64_t number);

/* Returns text of unknown origin: U+FFFD replaces what is not UTF-8. */
json_t *json_text(const char *text, size_t size);

/* Does the same as json_text for a text that ends with a zero byte; NULL becomes null. */
json_t *json_text_or_null(const char *text);

/* Sets a member; takes over @value. */
void json_add(json_t *object, const char *name, json_t *value);

/* Appends; takes over @value. */
void json_push(json_t *array, json_t *value);

/* Writes a value on one line and frees it. */
void json_print(FILE *file, json_t *value);
