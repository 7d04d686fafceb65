/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that one compilation looked at, and what it found there. A compiler cannot say
 * beforehand what it will read, so Kiln notes it during the compilation, and checks it again before
 * it uses a result.
 *
 * A path is noted as the compiler gave it; a relative path is relative to the working directory of
 * the process that checks it. Kiln compares whether the path exists, a file's content, which paths
 * lead to the same file or folder, and the target of a link that the compiler read.
 */
#pragma once

#include <stdbool.h>

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/text.h"
#include "device/watch/words.h"

/* Collects the reads of one compilation. One thread at a time. */
typedef struct kilni_reads kilni_reads;

/* @name   of the program; may be NULL; must live as long as the reads
 * @words  the words to look for in the files
 */
kiln_status kilni_reads_new(const char *name, const kilni_word_list *words,
                            kilni_reads **ret_reads);
void kilni_reads_free(kilni_reads **reads);

/* Notes that the compilation looks at a path, or is about to open it. */
void kilni_reads_note(kilni_reads *reads, const char *path);

/* Notes that the compilation asks what is at a path, without opening it. Not noted if it is the
 * folder that PWD names. */
void kilni_reads_note_facts(kilni_reads *reads, const char *path);

/* For a compiler that may itself put the working directory before relative paths. A look at that
 * directory by its own path is noted as ".", so that equal folders have equal results. But if the
 * compiler goes from the root into the directory, the result is valid in that directory only.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the working directory has no path; KILN_E_NO_MEMORY. */
kiln_status kilni_reads_count_working_folder(kilni_reads *reads);

/* After kilni_reads_count_working_folder. If options name that folder or the one that PWD names,
 * the compiler may search there because of them: then it is noted like any other folder, and if it
 * is the working directory, the result is valid there only.
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_reads_see_options(kilni_reads *reads, const char *options);

/* The compilation opens what is there, and may then ask for its path without links. Compilers
 * compare that with the path that they opened, to warn of names in another case. So only as many of
 * its last names count as that path has, and equal folders have equal results. */
void kilni_reads_note_opened(kilni_reads *reads, const char *path);
void kilni_reads_note_real_names_of_opened(kilni_reads *reads, const char *unused);

/* Note that the compilation reads a link, or resolves all links of a path. */
void kilni_reads_note_link(kilni_reads *reads, const char *path);
void kilni_reads_note_real_path(kilni_reads *reads, const char *path);

/* What a compiler keeps for itself, or what counts elsewhere: such paths are not noted. */
typedef bool kilni_reads_ignore_fn(const void *user, const char *path);
void kilni_reads_ignore(kilni_reads *reads, kilni_reads_ignore_fn *ignore, const void *user);

/* The compilation writes, makes, renames or removes what is at a path: that spoils the reads,
 * unless the path is ignored. */
void kilni_reads_note_change(kilni_reads *reads, const char *path);

/* Notes that the compilation did something that Kiln cannot check again, so that its result cannot
 * be kept.
 *
 * @why  static text */
void kilni_reads_fail(kilni_reads *reads, const char *why);

/* The words of all files that were read. */
const kilni_words *kilni_reads_words(const kilni_reads *reads);

/* Whether anything was noted. */
bool kilni_reads_has_any(const kilni_reads *reads);

/* Whether a file that was read contains the folder of the program's name: see
 * kilni_text_has_program_folder. */
bool kilni_reads_mention_folder(const kilni_reads *reads);

/* Whether a file was read from the folder of the program's name. */
bool kilni_reads_use_folder(const kilni_reads *reads);

/* Checks everything once more, after the compilation.
 *
 * @moves        whether the result would be the same in another folder than that of the name; if
 *               so, paths in that folder are stored relative to it, else the result is valid only
 *               in this folder
 * @words        [in, out] the words that the files contain are added
 * @ret_encoded  [out] for kilni_reads_hold; freed by the caller, with kilni_text_done
 * @ret_why      [out] static text
 * Returns KILN_OK; KILN_MISS: something has changed since it was read; KILN_E_UNSUPPORTED: the
 * compilation did something that cannot be checked; both with the reason; KILN_E_NO_MEMORY. Blocks:
 * on reading files. */
kiln_status kilni_reads_finish(kilni_reads *reads, bool moves, kilni_words *words,
                               kilni_text *ret_encoded, const char **ret_why);

/* Whether everything is still as it was found, for a program of that name.
 *
 * @ret_changed  [out] may be NULL; with KILN_MISS: a path that has changed, or the only folder in
 *                     which the result is valid; within @encoded; only the relative part of a path
 *                     in the program's folder
 * Returns KILN_OK; KILN_MISS: something has changed; KILN_E_CORRUPT; KILN_E_NO_MEMORY. Threads:
 * any. Blocks: on reading files. */
kiln_status kilni_reads_hold(kiln_bytes encoded, const char *name, const char **ret_changed);

/* What was found at a path; stored values. */
typedef enum kilni_finding {
    KILNI_FOUND_NOTHING = 1,
    KILNI_FOUND_FILE = 2,
    KILNI_FOUND_FOLDER = 3,
    KILNI_FOUND_LINK = 4,     /* the target of a link, or a path without links */
    KILNI_PROGRAM_FOLDER = 5, /* not stored: the result is valid only in that folder */
} kilni_finding;

/* One thing that a result depends on. */
typedef struct kilni_read {
    const char *path; /* lives as long as the encoded reads */
    kilni_finding found;
    bool counts_from_program; /* the path is relative to the program's folder, which is not known */
    uint64_t size;            /* of a file, in bytes */
    kiln_status now; /* KILN_OK: it is unchanged; KILN_MISS: it has changed; KILN_E_UNSUPPORTED:
                      * that cannot be determined here */
} kilni_read;

/* Visits each read. A visitor that returns nonzero ends the walk.
 *
 * Returns KILN_OK; KILN_E_CORRUPT, possibly after some visits; KILN_E_NO_MEMORY. Threads: any.
 * Blocks: on reading files. */
typedef int kilni_read_visit(void *user, const kilni_read *read);
kiln_status kilni_reads_each(kiln_bytes encoded, kilni_read_visit *visit, void *user);
