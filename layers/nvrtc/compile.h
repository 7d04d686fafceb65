/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "programs.h"

/* nvrtcCompileProgram of a program that is PROGRAM_FRESH. */
int compile_program(program_record *record, int option_count, const char *const *options);
