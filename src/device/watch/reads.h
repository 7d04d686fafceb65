/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that one compilation looked at, and what it found there. A compiler can't say
 * beforehand what it will read: that is noted while it reads, and looked up again before a result
 * is believed.
 *
 * A path counts as it was given, relative ones from the working directory of whoever asks. What
 * counts of it is whether it is there, a file's content, which paths lead to the same file, and
 * what a link says that was asked for.
 */
#pragma once

#include <stdbool.h>

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/text.h"
#include "device/watch/clock_words.h"

/* Collects the reads of one compilation. One thread at a time. */
typedef struct kilni_reads kilni_reads;

/* @name  of the program; may be NULL; lives as long as the reads */
kiln_status kilni_reads_new(const char *name, kilni_reads **ret_reads);
void kilni_reads_free(kilni_reads **reads);

/* The compilation looks at a path, or is about to open what is there. */
void kilni_reads_note(kilni_reads *reads, const char *path);

/* The compilation reads what a link says, or the path without links. */
void kilni_reads_note_link(kilni_reads *reads, const char *path);
void kilni_reads_note_real_path(kilni_reads *reads, const char *path);

/* It did something after which its result can't be believed to come from what was noted.
 *
 * @why  static text */
void kilni_reads_spoil(kilni_reads *reads, const char *why);

/* Whether a file that was read names the folder of the program's name: see
 * kilni_names_program_folder. */
bool kilni_reads_name_folder(const kilni_reads *reads);

/* Looks at everything once more, after the compilation.
 *
 * @moves        whether the result is the same in another folder than that of the name: then paths
 *               in there count from whatever folder that is; else it has to be the same one
 * @words        [in, out] what the files say of the time is added
 * @ret_encoded  [out] for kilni_reads_hold; kilni_text_done by the caller
 * @ret_why      [out] static text
 * Returns KILN_OK; KILN_MISS: something has changed since it was read; KILN_E_UNSUPPORTED: it could
 * not be followed; both with the reason; KILN_E_NO_MEMORY. Blocks: on reading. */
kiln_status kilni_reads_finish(kilni_reads *reads, bool moves, kilni_clock_words *words,
                               kilni_text *ret_encoded, const char **ret_why);

/* Whether everything is still as it was found, for a program of that name.
 *
 * @ret_changed  [out] may be NULL; with KILN_MISS: a path that is not what it was, or the folder
 *               that the result is good in; in place, a part of a path where that counts from there
 * Returns KILN_OK; KILN_MISS: something has changed; KILN_E_CORRUPT; KILN_E_NO_MEMORY. Threads:
 * any. Blocks: on reading. */
kiln_status kilni_reads_hold(kiln_bytes encoded, const char *name, const char **ret_changed);

/* What was found for a path; stored values. */
typedef enum kilni_finding {
    KILNI_FOUND_NOTHING = 1,
    KILNI_FOUND_FILE = 2,
    KILNI_FOUND_FOLDER = 3,
    KILNI_FOUND_LINK = 4,     /* the text of a link, or a path without links */
    KILNI_PROGRAM_FOLDER = 5, /* not stored: the result is good in that folder alone */
} kilni_finding;

/* One thing that a result depends on. */
typedef struct kilni_read {
    const char *path; /* lives as long as the encoded reads */
    kilni_finding found;
    bool counts_from_program; /* the path counts from the program's folder, which isn't known */
    uint64_t size;            /* of a file, in bytes */
    kiln_status now; /* KILN_OK: it is as it was; KILN_MISS: it isn't; KILN_E_UNSUPPORTED: that
                        can't be told here */
} kilni_read;

/* Visits each read. A result other than 0 ends the walk.
 *
 * Returns KILN_OK; KILN_E_CORRUPT, maybe after some; KILN_E_NO_MEMORY. Threads: any. Blocks: on
 * reading. */
typedef int kilni_read_visit(void *user, const kilni_read *read);
kiln_status kilni_reads_each(kiln_bytes encoded, kilni_read_visit *visit, void *user);
