/* SPDX-License-Identifier: Apache-2.0
 *
 * A subcommand's command line: a table of its options with the places for their values. All
 * subcommands accept --dir, --json, --key-file and --help.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* An option of one subcommand: either a flag or an option with a text. The pointer of the other
 * kind is NULL. */
typedef struct option_spec {
    const char *name;
    bool *flag;
    const char **text;
} option_spec;

#define OPTIONS_MAX 20

typedef struct command_line {
    /* What the subcommand accepts. */
    const char *usage;                /* the text of --help */
    option_spec options[OPTIONS_MAX]; /* ended by a NULL name */
    int operands_min, operands_max;   /* -1: any number */
    bool stops_at_operand;            /* options are not read after the first operand */

    /* The user's command line. */
    const char *directory; /* the value of --dir, or NULL */
    bool json;
    char **operands; /* ended by NULL */
    int operand_count;
} command_line;

/* Reads a command line. Ends the tool if --help was given or the command line is wrong. */
void options_read(command_line *line, int argc, char **argv);

/* Reports what is wrong with the command line, and ends the tool with EXIT_USAGE. */
_Noreturn void options_wrong(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* These read the values of options, and end the tool if a value is wrong. */

/* Returns the value of --wait-ms, at most a day. */
uint64_t options_wait_ms(const char *command, const char *text);

/* Returns a size in bytes, which is the value of the option @name, or @if_absent if @text is NULL.
 */
uint64_t options_size(const char *command, const char *name, const char *text, uint64_t if_absent);

/* Returns an age in seconds, which is the value of the option @name; 0 if @text is NULL. */
uint64_t options_age_s(const char *command, const char *name, const char *text);

/* Returns the value of --limit; 0 if @text is NULL. */
uint64_t options_limit(const char *command, const char *text);

/* Returns the value of --budget in seconds; 0 if @text is NULL. */
uint64_t options_budget_s(const char *command, const char *text);
