/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool's commands.
 */
#pragma once

/* Each receives its own name in argv[0], such as "kiln ls", and returns the exit code. */
int cmd_run(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_trim(int argc, char **argv);
int cmd_clear(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_capture(int argc, char **argv);
int cmd_pack(int argc, char **argv);
int cmd_unpack(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_copy(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_push(int argc, char **argv);
int cmd_replay(int argc, char **argv);
