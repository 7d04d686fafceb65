/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in one file, which contains entries and their index (format.h) and never changes. It can
 * only be read.
 *
 * A look-up reads one page of the index and then the entry, with pread, into the reader's own
 * memory, and verifies the entry there. The file is not mapped, because if a mapped file shrinks, a
 * process that reads it is killed, and mapped bytes may change between the check and the use.
 */
#pragma once

#include "store/engine.h"

/* The file is checked by its descriptor: it must be a regular file that belongs to this user or to
 * root, and that nobody else may write. The directories above it are checked by kilni_dir_enter. */
extern const kilni_store_engine kilni_pack_engine;

/* Opens a pack whose file is open and checked.
 *
 * @path  for messages
 * @file  this function takes ownership of it in any case */
kiln_status kilni_pack_open_file(const char *path, int file, const kilni_store_options *options,
                                 kiln_store **ret_store, kiln_error *error);
