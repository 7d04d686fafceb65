/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine-readable output. All of these end the tool where memory is out.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A number above what JSON's integers hold here becomes the highest one that they do. */
json_t *json_number(uint64_t number);

/* Text of unknown origin: what is not UTF-8 becomes U+FFFD. */
json_t *json_text(const char *text, size_t size);

/* The same for a text that ends with a zero byte; NULL becomes null. */
json_t *json_text_or_null(const char *text);

/* Sets a member; takes over @value. */
void json_add(json_t *object, const char *name, json_t *value);

/* Appends; takes over @value. */
void json_push(json_t *array, json_t *value);

/* Writes a value on one line and frees it. */
void json_print(FILE *file, json_t *value);
