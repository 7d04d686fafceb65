/* SPDX-License-Identifier: Apache-2.0
 *
 * A subcommand's command line: a table of its options, and where their values go. All subcommands
 * accept --dir, --json, --key-file and --help.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* An option of the subcommand's own: a flag, or one with a text. The other pointer is NULL. */
typedef struct option_spec {
    const char *name;
    bool *flag;
    const char **text;
} option_spec;

#define OPTIONS_MAX 8

typedef struct command_line {
    /* What the subcommand accepts. */
    const char *usage;                /* the text of --help */
    option_spec options[OPTIONS_MAX]; /* ended by a NULL name */
    int operands_min, operands_max;   /* -1: any number */
    bool stops_at_operand;            /* options are not read after the first operand */

    /* What the user gave. */
    const char *directory; /* the value of --dir, or NULL */
    bool json;
    char **operands; /* ended by NULL */
    int operand_count;
} command_line;

/* Reads a command line. Returns true if the command must run. Returns false, with @ret_exit_code,
 * if --help was printed or an error was reported. */
bool options_read(command_line *line, int argc, char **argv, int *ret_exit_code);

/* Reports what is wrong with the command line. Returns EXIT_USAGE. */
int options_wrong(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads the value of --wait-ms, at most a day. Returns EXIT_OK, or EXIT_USAGE after a message. */
int options_read_wait(const char *command, const char *text, uint64_t *ret_ms);
