/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as an HTML page, which is complete in itself: it has no script, and loads nothing.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

/* Writes the page. @report is the object that `kiln report --json` prints. */
void page_write(FILE *file, const json_t *report);
