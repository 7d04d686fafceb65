/* SPDX-License-Identifier: Apache-2.0
 *
 * A subcommand's command line, as a table: what it takes, and where the values go. --dir, --json,
 * --key-file and --help are known to all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* An option of the subcommand's own: a flag, or one that takes a text. The other one is NULL. */
typedef struct option_spec {
    const char *name;
    bool *flag;
    const char **text;
} option_spec;

#define OPTIONS_MAX 8

typedef struct command_line {
    /* What it takes. */
    const char *usage;                /* all of --help */
    option_spec options[OPTIONS_MAX]; /* ended by a NULL name */
    int operands_min, operands_max;   /* -1: any number */
    bool stops_at_operand;            /* what follows the first operand is not looked at */

    /* What was given. */
    const char *directory; /* --dir, else NULL */
    bool json;
    char **operands; /* ended by NULL */
    int operand_count;
} command_line;

/* Reads a command line. Returns true to go on; false where all is done, with @ret_exit_code: help
 * was printed, or a fault was named. */
bool options_read(command_line *line, int argc, char **argv, int *ret_exit_code);

/* Says what is wrong with the command line; returns EXIT_USAGE. */
int options_wrong(const char *command, const char *what);

/* Reads what an option was given that wants a number of milliseconds, a day at most. */
bool options_parse_ms(const char *text, uint64_t *ret_ms);
