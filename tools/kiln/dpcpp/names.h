/* SPDX-License-Identifier: Apache-2.0
 *
 * The names that the SYCL runtime gives to files and directories, and no others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_COMPILER_NAME "ext_kernel_compiler"
#define SIZE_NAME "cache_size.txt"
#define EVICTION_LOCK_NAME "_eviction_in_progress.lock" /* follows the name of the root */

/* The files of one item; all but the lock's and the stamp lock's are named in the order in which
 * they are written. */
typedef enum slot_file {
    SLOT_BIN,
    SLOT_SRC,
    SLOT_STAMP, /* when it was used last */
    SLOT_LOCK,
    SLOT_STAMP_LOCK,
    SLOT_FILES
} slot_file;

/* The one item of a directory of LLVM code is not numbered, but called "ir". */
#define SLOT_IR UINT64_MAX

#define SLOT_NAME_SIZE 64

/* A decimal number as the runtime writes one: digits alone, no zero before others. */
bool parse_number(const char *text, size_t length, uint64_t *ret_number);

/* Whether this is the name of a file of an item, and of which. */
bool slot_name_parse(const char *name, uint64_t *ret_number, slot_file *ret_file);

/* @ret_name  room for SLOT_NAME_SIZE bytes */
void slot_name_format(uint64_t number, slot_file file, char *ret_name);

/* Whether this names a directory of LLVM code: one or two digests, in base 64 with - for /. */
bool is_ir_directory_name(const char *name);
