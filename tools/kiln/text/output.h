/* SPDX-License-Identifier: Apache-2.0
 *
 * How the tool speaks to people: complaints, and numbers with units.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kiln/status.h>

/* Writes "kiln: ", the text and a newline to stderr. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What the tool exits with where a call of the library failed so. */
int exit_code_of(kiln_status status);

/* Whether stdout is a terminal that may be given colours. */
bool colours_wanted(void);

/* Writes what an entry holds, a source or a log, to stdout: as it is, but to a terminal with its
 * control characters written out (escape.h). */
void print_text(const char *text, size_t size);

/* Writes lines that quote others to stdout, control characters but ends of lines and tabs written
 * out. */
void print_lines(const char *text);

/* Writes a name, which is one line whatever is in it. */
void print_name(const char *text);

/* The one of two nouns that goes with a number: "entry" or "entries". */
const char *noun_of(uint64_t count, const char *one, const char *several);

/* Room for each of the texts below. */
#define UNIT_TEXT_SIZE 32

/* "812 B", "1.4 MiB". */
void format_size(uint64_t bytes, char *text);

/* "256 ms", "2.31 s", "3 min 12 s". */
void format_duration(uint64_t nanoseconds, char *text);

/* "2031-07-24 09:15:00", local time. */
void format_time(int64_t unix_s, char *text);
