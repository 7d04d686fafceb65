/* SPDX-License-Identifier: Apache-2.0
 *
 * The names that the SYCL runtime gives to files and directories.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_COMPILER_NAME "ext_kernel_compiler"
#define SIZE_NAME "cache_size.txt"
#define EVICTION_LOCK_NAME "_eviction_in_progress.lock" /* follows the name of the root */

/* The files of one item. The runtime writes them in this order, except the two locks. */
typedef enum slot_file {
    SLOT_BIN,
    SLOT_SRC,
    SLOT_STAMP, /* its time of use */
    SLOT_LOCK,
    SLOT_STAMP_LOCK,
    SLOT_FILES
} slot_file;

/* A directory of LLVM code has only one item, and its files are called "ir". This constant is used
 * as the item's number. */
#define SLOT_IR UINT64_MAX

#define SLOT_NAME_SIZE 64

/* Reads a decimal number as the runtime writes it: it has only digits, and no leading zero. Returns
 * false for anything else. */
bool parse_number(const char *text, size_t length, uint64_t *ret_number);

/* Returns true if this is the name of an item's file. In that case, also stores the item's number,
 * and which file it is. */
bool slot_name_parse(const char *name, uint64_t *ret_number, slot_file *ret_file);

/* @ret_name  has room for SLOT_NAME_SIZE bytes */
void slot_name_format(uint64_t number, slot_file file, char *ret_name);

/* Returns true if this is the name of a directory of LLVM code. Such a name consists of one or two
 * digests in base 64, with - instead of /. */
bool is_ir_directory_name(const char *name);
