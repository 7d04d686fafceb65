/* SPDX-License-Identifier: Apache-2.0 */
#include "linker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/trace.h"
#include "device/symbols.h"

/* More than a library exports: one for each of 10 releases, and the plain one. */
enum { INTERFACES_MAX = 16 };

typedef struct known_function {
    int action;
    const linker_interface *interface;
} known_function;

struct linker_library {
    const struct link_map *map;
    kilni_watched *watched;
    kilni_nvjitlink_version_fn *version;
    linker_library *next;
    linker_interface interfaces[INTERFACES_MAX];
    size_t interface_count;
    _Atomic int is_opaque; /* relaxed: nothing else depends on it */
    size_t count;
    known_function functions[];
};

/* Guards the list. A thread that holds it must not call the loader. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static linker_library *libraries;

void linker_lock(void)
{
    pthread_mutex_lock(&lock);
}

void linker_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- names ---- */

/* In the order of linker_action. */
static const struct {
    const char *name;
    size_t member;
} actions[] = {
#define ACTION(member, type, name) {name, offsetof(kilni_nvjitlink_functions, member)},
    KILNI_NVJITLINK_FUNCTIONS(ACTION)
#undef ACTION
};
enum { ACTION_COUNT = sizeof actions / sizeof *actions };

/* In the order of the functions. */
static const kilni_nvrtc_output outputs[] = {KILNI_NVRTC_LOG, KILNI_NVRTC_ERROR_LOG,
                                             KILNI_NVRTC_PTX, KILNI_NVRTC_CUBIN, KILNI_NVRTC_LTOIR};
_Static_assert(LINKER_FIRST_OUTPUT + 2 * sizeof outputs / sizeof *outputs == ACTION_COUNT,
               "each output has two functions");

kilni_nvrtc_output linker_output(int action)
{
    return outputs[(action - LINKER_FIRST_OUTPUT) / 2];
}

/* Returns the release in a function's name: "12_9" for "__nvJitLinkCreate_12_9", "" for
 * "nvJitLinkCreate". Returns NULL if @name is not a name of the function @plain. */
static const char *release_in(const char *name, const char *plain)
{
    const size_t length = strlen(plain);
    if (strcmp(name, plain) == 0) {
        return "";
    }
    return strncmp(name, "__", 2) == 0 && strncmp(name + 2, plain, length) == 0 &&
                   name[2 + length] == '_' && strlen(name + 3 + length) < LINKER_INTERFACE_SIZE
               ? name + 3 + length
               : NULL;
}

/* Returns NULL if there are too many interfaces. */
static linker_interface *interface_of(linker_library *library, const char *release)
{
    linker_interface *found = library->interfaces, *end = found + library->interface_count;
    while (found < end && strcmp(found->release, release) != 0) {
        found++;
    }
    if (found == end && library->interface_count < INTERFACES_MAX) {
        strcpy(found->release, release); /* NOLINT: release_in has checked the length */
        library->interface_count++;
        return found;
    }
    return found < end ? found : NULL;
}

static known_function recognize(linker_library *library, const linker_function *function)
{
    const char *release = NULL;
    int action = 0;
    while (action < ACTION_COUNT && !release) {
        release = release_in(function->name, actions[action++].name);
    }
    linker_interface *interface = release ? interface_of(library, release) : NULL;
    if (!interface) {
        return (known_function){.action = LINKER_UNKNOWN};
    }
    memcpy((char *)&interface->real + actions[action - 1].member, &function->real,
           sizeof function->real);
    return (known_function){action - 1, interface};
}

/* ---- attaching ---- */

static linker_library *make_library(const struct link_map *map, kilni_watched *watched,
                                    const linker_function *functions, size_t count)
{
    linker_library *made = calloc(1, sizeof *made + count * sizeof *made->functions);
    if (!made) {
        return NULL;
    }
    void *version = kilni_symbols_find(map, "nvJitLinkVersion");
    memcpy(&made->version, &version, sizeof version);
    made->map = map;
    made->watched = watched;
    made->count = count;
    for (size_t i = 0; i < count; i++) {
        made->functions[i] = recognize(made, &functions[i]);
    }
    return made;
}

linker_library *linker_attach(struct link_map *map, const linker_function *functions, size_t count)
{
    kilni_watched *watched;
    if (kilni_watched_find(map, &watched) != KILN_OK) {
        trace_note("libnvJitLink cannot be watched for the files that it reads: its links are not "
                   "cached");
        return NULL;
    }
    linker_library *made = make_library(map, watched, functions, count);
    if (!made || !made->version) {
        free(made);
        return NULL;
    }
    linker_lock();
    linker_library *known = libraries;
    while (known && known->map != map) {
        known = known->next;
    }
    if (!known) {
        made->next = libraries;
        libraries = made;
    }
    linker_unlock();
    if (known) {
        free(made);
    }
    return known ? known : made;
}

int linker_find(const linker_library *library, size_t function,
                const linker_interface **ret_interface)
{
    const known_function *found = &library->functions[function];
    if (found->action != LINKER_UNKNOWN) {
        *ret_interface = found->interface;
    }
    return found->action;
}

kilni_nvjitlink_version_fn *linker_version(const linker_library *library)
{
    return library->version;
}

kilni_watched *linker_watched(const linker_library *library)
{
    return library->watched;
}

void linker_set_opaque(linker_library *library)
{
    atomic_store_explicit(&library->is_opaque, 1, memory_order_relaxed);
}

int linker_is_opaque(const linker_library *library)
{
    return atomic_load_explicit(&library->is_opaque, memory_order_relaxed);
}
