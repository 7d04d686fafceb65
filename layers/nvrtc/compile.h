/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "programs.h"

/* Does nvrtcCompileProgram for a program that is PROGRAM_FRESH. Returns NVRTC's result. */
int compile_program(program_record *record, int option_count, const char *const *options);
