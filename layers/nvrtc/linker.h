/* SPDX-License-Identifier: Apache-2.0
 *
 * The libnvJitLink libraries of a process, and the interfaces that each of them exports.
 */
#pragma once

#include "device/nvjitlink/functions.h"
#include "device/watch/watched_library.h"
#include "hooks.h"

enum { LINKER_INTERFACE_SIZE = 12 };

/* The functions of one release: see device/nvjitlink/functions.h. */
typedef struct linker_interface {
    char release[LINKER_INTERFACE_SIZE]; /* "12_9"; "": the functions have plain names */
    kilni_nvjitlink_functions real;
} linker_interface;

/* What a function does. The functions that return outputs come after these, in pairs: for each
 * output one that returns the size, and one that returns the bytes. */
typedef enum linker_action {
    LINKER_CREATE = 0,
    LINKER_DESTROY,
    LINKER_ADD_DATA,
    LINKER_ADD_FILE,
    LINKER_COMPLETE,
    LINKER_FIRST_OUTPUT,
    LINKER_UNKNOWN = -1
} linker_action;

/* Does what nvrtc_hooks.attach_linker describes. */
linker_library *linker_attach(struct link_map *map, const linker_function *functions, size_t count);

/* Returns what a function does. Returns the function's interface in @ret_interface, which is not
 * written for LINKER_UNKNOWN. */
int linker_find(const linker_library *library, size_t function,
                const linker_interface **ret_interface);

/* Returns the output that a function returns. @action is at least LINKER_FIRST_OUTPUT. */
kilni_nvrtc_output linker_output(int action);

/* Returns nvJitLinkVersion, which the layer does not replace. */
kilni_nvjitlink_version_fn *linker_version(const linker_library *library);

/* Returns the argument for kilni_watch_begin. */
kilni_watched *linker_watched(const linker_library *library);

/* Call this when an unknown function of the library is called: it might return functions that the
 * layer does not see. From then on, nothing that the library links is kept. */
void linker_set_opaque(linker_library *library);
int linker_is_opaque(const linker_library *library);

/* Called around fork. */
void linker_lock(void);
void linker_unlock(void);
