/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "programs.h"

/* Serves a call of nvrtcCompileProgram for a program that is PROGRAM_FRESH. Returns one of NVRTC's
 * result codes. */
int compile_program(program_record *record, int option_count, const char *const *options);
