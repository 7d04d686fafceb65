/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <kiln/version.h>

#include "command/commands.h"
#include "text/exit_code.h"
#include "text/output.h"

typedef struct tool_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
    bool starts_others; /* it starts programs, or processes that load drivers */
} tool_command;

static const tool_command commands[] = {
    {"run", "run a program with its builds cached", cmd_run, true},
    {"stats", "show what caching has saved so far", cmd_stats, false},
    {"report", "write a page about what caching has saved", cmd_report, false},
    {"ls", "list the entries", cmd_ls, false},
    {"show", "show one entry", cmd_show, false},
    {"why", "explain why a build was not found", cmd_why, false},
    {"verify", "read and check every entry", cmd_verify, false},
    {"rm", "remove entries", cmd_rm, false},
    {"trim", "remove the entries least worth keeping", cmd_trim, false},
    {"clear", "remove all entries", cmd_clear, false},
    {"capture", "capture the builds that programs left as requests", cmd_capture, true},
    {"replay", "build again what entries contain, after an upgrade", cmd_replay, true},
    {"pack", "write entries to one file that can be shipped", cmd_pack, false},
    {"unpack", "copy the entries of such a file into a cache", cmd_unpack, false},
    {"copy", "copy entries from one store into another", cmd_copy, false},
    {"pull", "copy what fits this machine from a server into the cache", cmd_pull, false},
    {"push", "copy what this machine has built to a server", cmd_push, false},
    {"key", "make, show, trust and revoke keys of signatures", cmd_key, false},
    {"doctor", "report what a program would get here, and what is wrong", cmd_doctor, true},
};
static const size_t command_count = sizeof commands / sizeof commands[0];

static void print_usage(FILE *file)
{
    fputs("Usage: kiln COMMAND [OPTIONS] [ARGUMENTS]\n"
          "       kiln help [COMMAND]\n"
          "\n"
          "Commands:\n",
          file);
    for (size_t i = 0; i < command_count; i++) {
        fprintf(file, "  %-8s  %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(file, "  %-8s  %s\n", "help", "explain one command");
    fputs("\nkiln(1) describes all commands.\n", file);
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

static bool asks_for_help(const char *argument)
{
    return strcmp(argument, "help") == 0 || strcmp(argument, "--help") == 0 ||
           strcmp(argument, "-h") == 0;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (asks_for_help(argv[1])) {
        if (argc == 2 || asks_for_help(argv[2])) {
            print_usage(stdout);
            return EXIT_OK;
        }
        static char option[] = "--help";
        argv[1] = argv[2];
        argv[2] = option;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("kiln " KILN_VERSION);
        return EXIT_OK;
    }
    const tool_command *command = find_command(argv[1]);
    if (command == NULL) {
        complain(argv[1][0] == '-' ? "'%s' must follow a command; 'kiln --help' lists the commands"
                                   : "unknown command '%s'; 'kiln --help' lists the commands",
                 argv[1]);
        return EXIT_USAGE;
    }
    if (!command->starts_others) {
        /* With this, reaching the limit on file sizes is an error to report, like a full disk.
         * Commands that start other programs leave the signal as they inherited it. */
        signal(SIGXFSZ, SIG_IGN);
    }
    char title[16];
    snprintf(title, sizeof title, "kiln %s", command->name);
    argv[1] = title;
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    /* Not LC_NUMERIC: numbers always have a decimal point. */
    setlocale(LC_CTYPE, "");
    end_tool(dispatch(argc, argv));
}
