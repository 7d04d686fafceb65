/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages to the user, and texts of unknown origin.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kiln/status.h>

/* Writes "kiln: ", the text and a newline to stderr. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Does the same with a text that several parts of a command may report, but only once. */
void complain_once(const char *text);

/* Ends the tool with @exit_code. If stdout could not be written, reports this and uses EXIT_IO
 * instead. */
_Noreturn void end_tool(int exit_code);

/* Returns the exit code for a status of the library. */
int exit_code_of(kiln_status status);

/* Reports that @what, such as a directory, has failed with @status. Returns the exit code. */
int complain_of_status(const char *what, kiln_status status);

/* Returns the text of an error of the library. If the error has no text, returns the text of the
 * status. */
const char *error_text(const kiln_error *error, kiln_status status);

/* Returns true if stdout is a terminal, and colours are wanted. */
bool colours_wanted(void);

/* Writes content of an entry, such as a source or a log, to stdout. If stdout is a terminal,
 * escapes control characters (escape.h). */
void print_text(const char *text, size_t size);

/* Writes lines to stdout. Escapes all control characters except line ends and tabs. */
void print_lines(const char *text);

/* Writes a name to stdout, always as a single line. */
void print_name(const char *text);

/* Returns the noun that goes with a number: "entry" or "entries". */
const char *noun_of(uint64_t count, const char *one, const char *several);
