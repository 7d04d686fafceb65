/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the paths that one compilation accesses, and what it finds there. Nobody knows beforehand
 * what a compiler will read. So Kiln records it during the compilation, and checks it again before
 * using a result: see changed_files.h.
 *
 * A path is recorded as the compiler passed it. A relative path is relative to the working
 * directory of the process that checks it. Kiln checks whether the path exists, what a file
 * contains, which paths lead to the same file or folder, the target of each link, and the names in
 * each folder that the compiler read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include <kiln/status.h>

#include "base/text.h"
#include "device/watch/words.h"

/* Collects the reads of one compilation. Only one thread may use it at a time. */
typedef struct kilni_reads kilni_reads;

/* @name   the program's name; may be NULL; must live as long as the reads
 * @words  the words to look for in the files
 */
kiln_status kilni_reads_new(const char *name, const kilni_word_list *words,
                            kilni_reads **ret_reads);
void kilni_reads_free(kilni_reads **reads);

/* Records what a different compilation of a program with the same name has recorded, because this
 * one uses its result. kilni_reads_finish finds out whether anything has changed since then. */
void kilni_reads_add_all(kilni_reads *reads, const kilni_reads *others);

/* Records that the compilation is about to open a path. */
void kilni_reads_note(kilni_reads *reads, const char *path);

/* Records that the compilation queries a path without opening the file. Its content is recorded
 * too, unless kilni_reads_count_facts_alone was called. That function is for compilers that look
 * for large files, such as other programs, which they never open. */
void kilni_reads_note_query(kilni_reads *reads, const char *path);
void kilni_reads_count_facts_alone(kilni_reads *reads);

/* Without this call, kilni_reads_note_seen does not record a query of the folder that PWD names.
 * Call this for a compiler that does not itself check whether PWD names the working directory. */
void kilni_reads_count_spelled_folder(kilni_reads *reads);

/* Call this for a compiler that might itself prepend the working directory to relative paths: see
 * working_folder.h. A query of the working directory by its absolute path is recorded as ".", so
 * that folders with equal contents share results. In two cases, however, the result is valid only
 * in that directory: the compiler accesses an absolute path within the directory, or the options
 * name the directory or a folder above it.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the working directory has no path; KILN_E_NO_MEMORY. */
kiln_status kilni_reads_count_working_folder(kilni_reads *reads);

/* Call this after kilni_reads_count_working_folder. Options that contain the path in PWD might make
 * the compiler search that folder. So if @options contain it, queries of the folder are recorded
 * like queries of any other folder.
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_reads_see_options(kilni_reads *reads, const char *options);

/* What a call that the compiler made has returned. */
typedef struct kilni_seen {
    const char *path;
    const struct stat *facts; /* NULL: the call failed */
    int error;                /* the call's errno if it failed */
    const void *bytes; /* the content that the compiler reads, as many bytes as facts->st_size;
                          NULL: the call did not open the file */
} kilni_seen;

/* Records what the compiler found at a path, by calling stat or by opening the path. Unlike the
 * functions above, which look the path up themselves before the compiler does, this one is called
 * afterwards. The record cannot differ from what the compiler saw. So kilni_reads_finish need not
 * check it, unless one of the functions above is called for the same path as well, or the content
 * of a file is needed that the compiler has not opened. If the compiler sees two different things
 * at a path, the result cannot be kept. */
void kilni_reads_note_seen(kilni_reads *reads, const kilni_seen *seen);

/* Records that the compiler might once more read a file that kilni_reads_note_seen has recorded. So
 * kilni_reads_finish checks it. */
void kilni_reads_note_unseen(kilni_reads *reads, const char *path);

/* Records that a call of the compiler contradicts what kilni_reads_note_seen has recorded for a
 * path. The result cannot be kept. */
void kilni_reads_note_contradiction(kilni_reads *reads, const char *path);

/* Records that the compilation opens a file, and might then ask for the file's path without links.
 * Compilers compare the two paths, to warn if a name differs only in case. So only the last
 * components of the path without links are recorded, as many as the opened path has. Folders with
 * equal contents then share results. */
void kilni_reads_note_opened(kilni_reads *reads, const char *path);

/* Record that the compilation reads a link, or resolves all links of a path. */
void kilni_reads_note_link(kilni_reads *reads, const char *path);
void kilni_reads_note_real_path(kilni_reads *reads, const char *path);

/* Records that the compilation reads the names in a folder. */
void kilni_reads_note_listing(kilni_reads *reads, const char *path);

/* Call this for a compiler that makes temporary folders. A folder is the compiler's own if the
 * compilation itself has made it, so that it was empty, and if its name begins with @beginning.
 * What the compilation does in such a folder follows from its inputs, and is not recorded. A
 * compilation that makes no such folder has escaped the watch, and its result cannot be kept.
 *
 * @beginning  static text */
void kilni_reads_expect_folders(kilni_reads *reads, const char *beginning);

/* Records that the compilation has made a folder that did not exist. */
void kilni_reads_note_made(kilni_reads *reads, const char *path);

/* Returns true if a text contains the name of a folder of the compiler's own. These names are
 * random. */
bool kilni_reads_text_names_folder(const kilni_reads *reads, const void *text, size_t size);

/* Returns true if a path must not be recorded, because it is the compiler's own file, or because
 * the key already contains it. */
typedef bool kilni_reads_ignore_fn(const void *user, const char *path);
void kilni_reads_ignore(kilni_reads *reads, kilni_reads_ignore_fn *ignore, const void *user);

/* Records that the compilation writes, creates, renames or removes a file. Unless the path is
 * ignored, the result of the compilation cannot be kept. */
void kilni_reads_note_change(kilni_reads *reads, const char *path);

/* Records that the compilation did something that Kiln cannot check again. The result of the
 * compilation then cannot be kept.
 *
 * @why  static text */
void kilni_reads_fail(kilni_reads *reads, const char *why);

/* Returns the words that occur in the files that were read. */
const kilni_words *kilni_reads_words(const kilni_reads *reads);

/* Returns true if anything was recorded. */
bool kilni_reads_has_any(const kilni_reads *reads);

/* Returns true if a file that was read mentions the folder of the program's name: see
 * kilni_text_has_program_folder. */
bool kilni_reads_mention_folder(const kilni_reads *reads);

/* Returns true if a file was read from the folder of the program's name. */
bool kilni_reads_use_folder(const kilni_reads *reads);

/* Checks everything once more, after the compilation, except the records that need no check: see
 * kilni_reads_note_seen.
 *
 * @moves        true if the result would be the same if the program were in a different folder;
 *               paths in the program's folder are then stored relative to it; otherwise the result
 *               is valid only in that folder
 * @words        [in, out] the function adds the words that the files contain
 * @ret_encoded  [out] for kilni_reads_hold; freed by the caller, with kilni_text_done
 * @ret_why      [out] static text
 * Returns KILN_OK; KILN_MISS: something has changed since it was read; KILN_E_UNSUPPORTED: the
 * compilation did something that cannot be checked; KILN_E_NO_MEMORY. With KILN_MISS and
 * KILN_E_UNSUPPORTED, @ret_why has the reason. Blocks: on reading files. */
kiln_status kilni_reads_finish(kilni_reads *reads, bool moves, kilni_words *words,
                               kilni_text *ret_encoded, const char **ret_why);
