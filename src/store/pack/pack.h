/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in one file that never changes: entries and their index (format.h). It can only be read.
 *
 * A lookup reads one page of the index and then the entry, with pread, into memory of the reader's
 * own, and verifies the entry there. The file is not mapped: if a mapped file shrinks, a process
 * that reads it is killed, and mapped bytes may change between the check and the use.
 */
#pragma once

#include "store/engine.h"

/* The file is checked by its descriptor: it must be a regular file of this user's or root's that
 * nobody else may write. The directories above it are checked by kilni_dir_enter. */
extern const kilni_store_engine kilni_pack_engine;

/* Opens a pack whose file is open and checked.
 *
 * @path  for messages
 * @file  taken over in any case */
kiln_status kilni_pack_open_file(const char *path, int file, const kilni_store_options *options,
                                 kiln_store **ret_store, kiln_error *error);
