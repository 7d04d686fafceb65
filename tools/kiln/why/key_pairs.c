/* SPDX-License-Identifier: Apache-2.0 */
#include "key_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "../text/memory.h"

typedef struct part_pairing {
    kiln_key_part *files; /* the files that the first key has, and that the second key does not have
                             at the same place */
    size_t count;
    kiln_key_difference_fn report;
    void *user;
} part_pairing;

/* ---- files ---- */

bool key_pairs_is_file(const kiln_key_part *part)
{
    return part != NULL && part->bytes != NULL && strcmp(part->name, "driver.file") == 0;
}

static bool is_file(const kiln_key_part *part)
{
    return part == NULL || key_pairs_is_file(part);
}

/* The name ends at the last space, because the identity that follows it contains no space. */
size_t key_pairs_file_name_size(const kiln_key_part *file)
{
    const char *bytes = file->bytes;
    const char *end = file->size == 0 ? NULL : memrchr(bytes, ' ', (size_t)file->size);
    return end == NULL ? (size_t)file->size : (size_t)(end - bytes);
}

static bool have_same_name(const kiln_key_part *a, const kiln_key_part *b)
{
    return key_pairs_file_name_size(a) == key_pairs_file_name_size(b) &&
           memcmp(a->bytes, b->bytes, key_pairs_file_name_size(a)) == 0;
}

static bool are_same(const kiln_key_part *a, const kiln_key_part *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, (size_t)a->size) == 0;
}

/* ---- pairs ---- */

static int collect_file(void *user, kiln_key_change change, const kiln_key_part *there,
                        const kiln_key_part *wanted)
{
    part_pairing *pairing = user;
    (void)change;
    if (there != NULL && is_file(there) && is_file(wanted)) {
        pairing->files =
            must(reallocarray(pairing->files, pairing->count + 1, sizeof *pairing->files));
        pairing->files[pairing->count++] = *there;
    }
    return 0;
}

/* Removes the file with the same name from the list, and stores it in @ret_there. Returns false if
 * there is no such file. */
static bool take_file(part_pairing *pairing, const kiln_key_part *wanted, kiln_key_part *ret_there)
{
    for (size_t i = 0; i < pairing->count; i++) {
        if (have_same_name(&pairing->files[i], wanted)) {
            *ret_there = pairing->files[i];
            pairing->count--;
            memmove(&pairing->files[i], &pairing->files[i + 1],
                    (pairing->count - i) * sizeof *pairing->files);
            return true;
        }
    }
    return false;
}

static int report_pair(void *user, kiln_key_change change, const kiln_key_part *there,
                       const kiln_key_part *wanted)
{
    part_pairing *pairing = user;
    kiln_key_part file;
    if (!is_file(there) || !is_file(wanted)) {
        return pairing->report(pairing->user, change, there, wanted);
    }
    if (wanted == NULL) {
        return 0; /* the remaining files are reported at the end */
    }
    if (!take_file(pairing, wanted, &file)) {
        return pairing->report(pairing->user, KILN_KEY_ADDED, NULL, wanted);
    }
    return are_same(&file, wanted)
               ? 0
               : pairing->report(pairing->user, KILN_KEY_CHANGED, &file, wanted);
}

void key_pairs_difference(const explained_key *there, const explained_key *wanted,
                          kiln_key_difference_fn report, void *user)
{
    part_pairing pairing = {.report = report, .user = user};
    if (there->explanation != NULL && wanted->explanation != NULL) {
        kiln_key_difference(there->explanation, wanted->explanation, report, user);
    }
    kiln_key_difference(there->key, wanted->key, collect_file, &pairing);
    kiln_key_difference(there->key, wanted->key, report_pair, &pairing);
    for (size_t i = 0; i < pairing.count; i++) {
        report(user, KILN_KEY_REMOVED, &pairing.files[i], NULL);
    }
    free(pairing.files);
}
