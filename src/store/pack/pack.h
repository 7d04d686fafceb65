/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in a single file. The file contains entries and their index (format.h), and never
 * changes. The store can only be read.
 *
 * A look-up reads one page of the index and then the entry. It reads them with pread into the
 * reader's own memory, and verifies the entry there. The file is not mapped for two reasons. If a
 * mapped file shrinks, a process that reads it is killed. Mapped bytes can also change between the
 * check and the use.
 */
#pragma once

#include "store/engine.h"

/* The engine for packs. It checks the file by its descriptor. The file must be a regular file that
 * belongs to this user or to root, and nobody else is allowed to write it. The function
 * kilni_dir_enter checks the directories above the file. */
extern const kilni_store_engine kilni_pack_engine;

/* Opens a pack whose file is open and checked.
 *
 * @path  used only in messages
 * @file  the descriptor of the pack; this function takes ownership of it, even on failure */
kiln_status kilni_pack_open_file(const char *path, int file, const kilni_store_options *options,
                                 kiln_store **ret_store, kiln_error *error);
