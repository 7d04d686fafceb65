/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "command/commands.h"
#include "text/exit_code.h"
#include "text/output.h"

typedef struct tool_command {
    const char *name;
    const char *title; /* the name under which it speaks */
    const char *summary;
    int (*run)(int argc, char **argv);
    bool starts_others; /* programs, or drivers in processes of their own */
} tool_command;

static const tool_command commands[] = {
    {"run", "kiln run", "run a program with its builds cached", cmd_run, true},
    {"stats", "kiln stats", "what caching did so far", cmd_stats, false},
    {"ls", "kiln ls", "list the entries", cmd_ls, false},
    {"show", "kiln show", "all about one entry", cmd_show, false},
    {"why", "kiln why", "why a build was not found", cmd_why, false},
    {"verify", "kiln verify", "read and check every entry", cmd_verify, false},
    {"rm", "kiln rm", "remove entries", cmd_rm, false},
    {"trim", "kiln trim", "remove entries that are the least worth keeping", cmd_trim, false},
    {"clear", "kiln clear", "remove all entries", cmd_clear, false},
    {"capture", "kiln capture", "capture what programs left to be captured", cmd_capture, true},
    {"pack", "kiln pack", "write entries to one file to be shipped", cmd_pack, false},
    {"unpack", "kiln unpack", "take the entries of such a file", cmd_unpack, false},
    {"doctor", "kiln doctor", "what a program would get here, and what is wrong", cmd_doctor, true},
};
static const size_t command_count = sizeof commands / sizeof commands[0];

static void print_usage(FILE *file)
{
    fputs("Usage: kiln COMMAND [OPTIONS] [ARGUMENTS]\n\nCommands:\n", file);
    for (size_t i = 0; i < command_count; i++) {
        fprintf(file, "  %-8s  %s\n", commands[i].name, commands[i].summary);
    }
    fputs("\n'kiln COMMAND --help' tells more of one command, kiln(1) of all.\n", file);
}

static const tool_command *find_command(const char *name)
{
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("kiln " KILN_VERSION);
        return EXIT_OK;
    }
    const tool_command *command = find_command(argv[1]);
    if (command == NULL) {
        complain(argv[1][0] == '-' ? "'%s' is to follow a command; 'kiln --help' lists them"
                                   : "there is no command '%s'; 'kiln --help' lists them",
                 argv[1]);
        return EXIT_USAGE;
    }
    if (!command->starts_others) {
        /* A file that may not grow any more is a failure to be named, as a full disk is. What is
         * started inherits what this process inherited. */
        signal(SIGXFSZ, SIG_IGN);
    }
    char title[16];
    snprintf(title, sizeof title, "%s", command->title);
    argv[1] = title;
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    /* Not LC_NUMERIC: numbers are written with a point everywhere. */
    setlocale(LC_CTYPE, "");
    int exit_code = dispatch(argc, argv);
    if (ferror(stdout) || fflush(stdout) != 0) {
        complain("standard output: %s", strerror(errno));
        return EXIT_IO;
    }
    return exit_code;
}
