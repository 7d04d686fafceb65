/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands of the `kiln` tool, one file each, and what they exit with.
 */
#pragma once

enum {
    EXIT_OK = 0,
    EXIT_NOTHING_FOUND = 1,
    EXIT_USAGE = 2,
    EXIT_CONFIGURATION = 3,
    EXIT_IO = 4,
    EXIT_DAMAGED = 5,
    EXIT_NOT_EXECUTABLE = 126, /* these two as a shell has them */
    EXIT_NO_SUCH_PROGRAM = 127
};

/* Each takes its own name, as "kiln ls", in argv[0], and returns what to exit with. */
int cmd_run(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_trim(int argc, char **argv);
int cmd_clear(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_capture(int argc, char **argv);
