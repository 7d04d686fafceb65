/* SPDX-License-Identifier: Apache-2.0 */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/session.h"
#include "../shared/trace.h"
#include "base/error.h"
#include "key/builder.h"

struct nvrtc_library {
    const struct link_map *map;
    kilni_nvrtc_functions real;
    const runtime *runtime;
    nvrtc_library *next;

    /* The members below are guarded by the lock. */
    kilni_watched *watched[KILNI_WATCH_LIBRARIES_MAX];
    size_t watched_count; /* 0: not found yet */
    kiln_key *identity;   /* NULL: not determined yet */
    int is_confirmed;
    int is_contradicted;
};

/* Guards the list, and the members marked above. A thread that holds this lock must not call the
 * loader, because that could cause a deadlock: a thread that opens a library holds the loader's
 * lock while the library's constructors run, and a constructor might call NVRTC. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nvrtc_library *libraries;

void library_lock(void)
{
    pthread_mutex_lock(&lock);
}

void library_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

const kilni_nvrtc_functions *library_real(const nvrtc_library *library)
{
    return &library->real;
}

const char *library_path(const nvrtc_library *library)
{
    const char *path = library->map->l_name;
    return path && path[0] == '/' ? path : NULL;
}

const runtime *library_runtime(const nvrtc_library *library)
{
    return library->runtime;
}

/* Returns how many libraries are known; 0: none yet. */
static size_t get_watched(const nvrtc_library *library,
                          kilni_watched *ret_libraries[KILNI_WATCH_LIBRARIES_MAX])
{
    library_lock();
    const size_t count = library->watched_count;
    memcpy(ret_libraries, library->watched, count * sizeof *ret_libraries);
    library_unlock();
    return count;
}

/* Several threads can set the same libraries. */
static void set_watched(nvrtc_library *library, kilni_watched *const *watched, size_t count)
{
    library_lock();
    memcpy(library->watched, watched, count * sizeof *watched);
    library->watched_count = count;
    library_unlock();
}

kiln_status library_find_watched(nvrtc_library *library,
                                 kilni_watched *ret_libraries[KILNI_WATCH_LIBRARIES_MAX],
                                 size_t *ret_count)
{
    size_t count = get_watched(library, ret_libraries);
    const kiln_status status =
        count > 0 ? KILN_OK : library->runtime->find_watched(ret_libraries, &count);
    if (status == KILN_OK) {
        set_watched(library, ret_libraries, count);
        *ret_count = count;
    }
    return status;
}

/* ---- attaching ---- */

static nvrtc_library *add_library(const struct link_map *map, const kilni_nvrtc_functions *real,
                                  kilni_watched *watched)
{
    nvrtc_library *added = calloc(1, sizeof *added);
    if (added) {
        *added = (nvrtc_library){.map = map,
                                 .real = *real,
                                 .runtime = runtime_of(real),
                                 .watched = {watched},
                                 .watched_count = watched ? 1 : 0,
                                 .next = libraries};
        libraries = added;
    }
    return added;
}

/* Returns true if the library stays loaded. A library that is watched does, because Kiln's
 * functions, to which the library's calls are redirected, must find it. */
static bool prepare(struct link_map *map, const runtime *of, kilni_watched **ret_watched)
{
    if (of->find_watched) {
        return dlopen(map->l_name, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY) != NULL;
    }
    const kiln_status status = kilni_watched_find(map, ret_watched);
    if (status != KILN_OK) {
        trace_note("libnvrtc cannot be watched for the files that it reads: its compilations are "
                   "not cached");
    }
    return status == KILN_OK;
}

nvrtc_library *library_attach(struct link_map *map, const kilni_nvrtc_functions *real)
{
    const runtime *of = runtime_of(real);
    kilni_watched *watched = NULL;
    if (!of->suffices(real) || !prepare(map, of, &watched)) {
        return NULL;
    }
    library_lock();
    nvrtc_library *known = libraries;
    while (known && known->map != map) {
        known = known->next;
    }
    if (!known) {
        known = add_library(map, real, watched);
    }
    library_unlock();
    return known;
}

/* ---- identity ---- */

static kiln_status read_identity(const nvrtc_library *library, kiln_key **ret_identity,
                                 kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = library->runtime->add_identity(&library->real, builder, error);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_identity);
    }
    kiln_key_builder_free(&builder);
    return status;
}

/* Sets @ret_identity to a hold on the library's identity, or to NULL if the identity is not
 * determined yet. Returns KILN_OK, or KILN_E_UNSUPPORTED with the reason if a compilation has
 * contradicted the identity. */
static kiln_status find_known_identity(nvrtc_library *library, kiln_key **ret_identity,
                                       kiln_error *error)
{
    kiln_status status = KILN_OK;
    library_lock();
    if (library->is_contradicted) {
        status =
            kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s", library->runtime->contradiction);
    } else {
        *ret_identity = library->identity ? kiln_key_retain(library->identity) : NULL;
    }
    library_unlock();
    return status;
}

/* Stores @asked, unless a different thread has stored an identity first. Takes over @asked. Returns
 * a hold on the stored identity. */
static kiln_key *set_identity(nvrtc_library *library, kiln_key *asked)
{
    library_lock();
    if (!library->identity) {
        library->identity = kiln_key_retain(asked);
    }
    kiln_key *identity = kiln_key_retain(library->identity);
    library_unlock();
    kiln_key_release(&asked);
    return identity;
}

static kiln_status get_identity(nvrtc_library *library, kiln_key **ret_identity, kiln_error *error)
{
    kiln_key *identity = NULL;
    kiln_status status = find_known_identity(library, &identity, error);
    if (status == KILN_OK && !identity) {
        status = read_identity(library, &identity, error);
        identity = status == KILN_OK ? set_identity(library, identity) : NULL;
    }
    if (status == KILN_OK) {
        *ret_identity = identity;
    }
    return status;
}

kiln_status library_begin_key(nvrtc_library *library, kiln_key_builder **ret_builder,
                              kiln_error *error)
{
    kiln_key *identity = NULL;
    kiln_key_builder *builder = NULL;
    kiln_status status = get_identity(library, &identity, error);
    if (status == KILN_OK) {
        status = kiln_key_builder_new(&builder);
    }
    if (status == KILN_OK) {
        status = kilni_key_parts_add(identity, builder);
    }
    if (status == KILN_OK) {
        status = library->runtime->add_environment(session_config()->key_variables, builder, error);
    }
    kiln_key_release(&identity);
    if (status != KILN_OK) {
        kiln_key_builder_free(&builder);
        return status;
    }
    *ret_builder = builder;
    return KILN_OK;
}

/* Called with the lock held. */
static kiln_status set_confirmed(nvrtc_library *library, int is_the_same)
{
    library->is_confirmed = is_the_same;
    library->is_contradicted = !is_the_same;
    return is_the_same ? KILN_OK : KILN_E_UNSUPPORTED;
}

kiln_status library_confirm(nvrtc_library *library)
{
    library_lock();
    const int is_confirmed = library->is_confirmed;
    library_unlock();
    kiln_key *now = NULL;
    kiln_status status = is_confirmed ? KILN_OK : read_identity(library, &now, NULL);
    if (is_confirmed || status == KILN_E_NO_MEMORY) {
        return status;
    }
    library_lock();
    status = set_confirmed(library, status == KILN_OK && kiln_key_equals(now, library->identity));
    library_unlock();
    kiln_key_release(&now);
    return status;
}
