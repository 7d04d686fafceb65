/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in one file that never changes: entries and an index of them (format.h), read only.
 *
 * The file is read with pread into memory of the reader's own, a page of the index for a lookup
 * and then the entry, and what is handed out was verified there. It is not mapped: a file that
 * shrinks under a mapping ends the process that looks at it, and the bytes of a mapping may change
 * between the check and the use.
 */
#pragma once

#include "store/engine.h"

/* The file is trusted by its descriptor: a regular one, ours or root's, that nobody else may write;
 * and so are the directories above it, as kilni_dir_enter does. */
extern const kilni_store_engine kilni_pack_engine;

/* Opens a pack whose file is open, and trusted.
 *
 * @path  for people
 * @file  taken over, in any case */
kiln_status kilni_pack_open_file(const char *path, int file, const kilni_store_options *options,
                                 kiln_store **ret_store, kiln_error *error);
