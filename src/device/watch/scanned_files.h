/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers which words a file's content has, so that a process scans each header once, although
 * many programs include it. A header is recognized by its content, never by its name or its times.
 */
#pragma once

#include "device/watch/path_lookup.h"
#include "device/watch/words.h"

/* Adds the words of a file that the compiler read, as kilni_words_scan_file does.
 *
 * @words  its list must last until the process ends
 * @facts  of the file: its size and digest are those of @bytes
 * Threads: any. Blocks: never. */
void kilni_scanned_files_scan(kilni_words *words, const kilni_path_facts *facts, const void *bytes);
