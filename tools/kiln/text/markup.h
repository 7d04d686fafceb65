/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of unknown origin in HTML and SVG.
 */
#pragma once

#include <stdio.h>

/* Writes a text that is safe as the content of an element and in a quoted attribute: the characters
 * & < > " and ' become entities, and control characters are made visible (escape.h). */
void markup_text(FILE *file, const char *text);
