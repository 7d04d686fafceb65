/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of the tool.
 */
#pragma once

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
int cmd_pack(int argc, char **argv);
int cmd_unpack(int argc, char **argv);
