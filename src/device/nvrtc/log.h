/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC's logs, and what they say about precompiled headers.
 */
#pragma once

#include <stdbool.h>

#include "device/nvrtc/functions.h"

/* Returns a copy of a program's log, which the caller frees; NULL if memory runs out. */
char *kilni_nvrtc_log_copy(const kilni_nvrtc_functions *nvrtc, kilni_nvrtc_program program);

/* Writes "/" and the beginning of the name of this process's folder for precompiled headers, which
 * is in a temporary folder. A number follows. */
enum { KILNI_NVRTC_HEADER_FOLDER_SIZE = 48 };
void kilni_nvrtc_name_header_folder(char name[KILNI_NVRTC_HEADER_FOLDER_SIZE]);

/* Returns the path of the precompiled header that a log names, which the caller frees. Returns NULL
 * if it names none.
 *
 * @name    the program's name; may be NULL
 * @action  what NVRTC did: "using" or "creating" */
char *kilni_nvrtc_log_find_header(const char *log, const char *name, const char *action);

/* Removes the messages about precompiled headers, so that the log is that of a program that was
 * compiled without one. Returns true if there were any. */
bool kilni_nvrtc_log_remove_headers(char *log);
