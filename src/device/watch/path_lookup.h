/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out what exists at a path that a compiler looks up. Kiln asks this while the compiler runs,
 * and again later, before it uses the compiler's result.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include <kiln/entry.h>
#include <kiln/status.h>

enum { KILNI_FILE_DIGEST_BYTES = 32 };

/* What a look-up asks for. Entries store these values. */
typedef enum kilni_lookup {
    KILNI_LOOKUP_CONTENT = 1,
    KILNI_LOOKUP_LINK = 2, /* its target */
    KILNI_LOOKUP_REAL_PATH = 3,
    KILNI_LOOKUP_REAL_NAMES = 4, /* the last components of the real path: as many as the path has
                                  * after its last ".." */
    KILNI_LOOKUP_LISTING = 5,    /* the names in a folder */
    KILNI_LOOKUP_FACTS = 6       /* what exists, and of a file its size and permissions */
} kilni_lookup;

typedef struct kilni_path_facts {
    kiln_finding what;
    /* Of a file or a folder: */
    dev_t device;
    ino_t inode;
    /* Of a file: */
    uint64_t size;
    unsigned char digest[KILNI_FILE_DIGEST_BYTES]; /* the BLAKE2b-256 of its content, or, of a
                                                    * look-up of facts, its permissions */
    struct timespec changed;                       /* st_ctim, taken before it was read; also of a
                                                    * folder whose names were read */
} kilni_path_facts;

/* Returns true if a file or a folder was found. Only for these does it matter whether two paths
 * lead to the same one. */
static inline bool kilni_finding_has_identity(kiln_finding what)
{
    return what == KILN_FOUND_FILE || what == KILN_FOUND_FOLDER;
}

/* Returns true if a look-up has a text as a result: the target of a link, or a digest of the names
 * in a folder. */
static inline bool kilni_lookup_has_target(kilni_lookup lookup, kiln_finding what)
{
    return what == KILN_FOUND_LINK || (lookup == KILNI_LOOKUP_LISTING && what == KILN_FOUND_FOLDER);
}

/* Describes what a call of stat found.
 *
 * @found      NULL: the call failed
 * @error      the call's errno if it failed
 * @ret_facts  [out] the same as for KILNI_LOOKUP_FACTS
 * Returns KILN_OK; KILN_E_UNSUPPORTED: what exists at the path is not known, or is neither a
 * regular file nor a folder. */
kiln_status kilni_path_describe(const struct stat *found, int error, kilni_path_facts *ret_facts);

/* Receives the content of a file, and its facts. Both are valid during the call. */
typedef void kilni_content_fn(void *user, const kilni_path_facts *facts, const void *bytes);

/* @scan        called if the content of a file is read; may be NULL
 * @ret_facts   [out] might be partly written on failure
 * @ret_target  [out] if kilni_lookup_has_target: the link's target, the path without links, or the
 *              digest
 * Returns KILN_OK, even if nothing exists at the path; KILN_E_UNSUPPORTED: what exists there cannot
 * be determined, is neither a regular file nor a folder, is a file of more than 64 MiB, or a folder
 * with more than 4096 names was to be listed;
 * KILN_E_CORRUPT: @lookup is an unknown kind of look-up; KILN_E_NO_MEMORY. Blocks: on reading
 * files. */
kiln_status kilni_path_look_up(kilni_lookup lookup, const char *path, kilni_content_fn *scan,
                               void *user, kilni_path_facts *ret_facts, char ret_target[PATH_MAX]);
