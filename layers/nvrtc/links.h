/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layer knows about each nvJitLinkHandle. The handle is always nvJitLink's own.
 *
 * nvJitLink compiles PTX when an input is added, and the rest when the link is completed. So the
 * layer defers inputs: as long as the cache shows that nvJitLink accepts them, it only remembers
 * them, and nvJitLink gets them when a call needs an answer that only nvJitLink has. The cache
 * shows this by an entry of the whole link, or, if further inputs follow, by an entry without
 * results for the inputs so far. All of these entries are stored after the link has succeeded.
 *
 * nvJitLink allows only one thread at a time to use a handle, so a record needs no lock. The map of
 * all records has a lock.
 */
#pragma once

#include <stdbool.h>

#include "linker.h"

typedef struct link_record link_record;

/* Creates a link at nvJitLink, and its record. If memory runs out, there is no record, and all
 * calls go to nvJitLink. Returns nvJitLink's result. */
int link_create(linker_library *library, const linker_interface *interface,
                kilni_nvjitlink_handle *handle, uint32_t option_count, const char *const *options);

/* Returns a link's record; NULL if there is none. */
link_record *link_find(kilni_nvjitlink_handle handle);

/* Destroys a link at nvJitLink, and its record. Returns nvJitLink's result. */
int link_destroy(const linker_interface *interface, kilni_nvjitlink_handle *handle);

/* Returns true if the record was created through this interface. */
bool link_uses(const link_record *record, const linker_interface *interface);

/* An input, as the program passed it. The members are borrowed. */
typedef struct link_input {
    int kind;
    bool is_file;
    const char *name; /* of a file, its path; may be NULL for other inputs */
    const void *data;
    size_t size;
} link_input;

/* Each of these functions returns true if it has served the call; @ret_result is then the result.
 * If it returns false, the call must go to nvJitLink. */
bool link_add(link_record *record, const link_input *input, int *ret_result);
bool link_complete(link_record *record, int *ret_result);
bool link_answer_size(link_record *record, kilni_nvrtc_output output, size_t *size,
                      int *ret_result);
bool link_answer_get(link_record *record, kilni_nvrtc_output output, char *bytes, int *ret_result);

/* Makes nvJitLink do everything that was deferred. From then on, the link is nvJitLink's alone.
 *
 * @why  static text: why the link cannot be kept */
void link_give_up(link_record *record, const char *why);

/* Called around fork. */
void links_lock(void);
void links_unlock(void);
