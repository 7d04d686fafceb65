/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/watched_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/symbols.h"
#include "device/watch/calls.h"
#include "device/watch/math.h"
#include "device/watch/math_calls.h"

/* Where such a library finds one of the functions that it calls. */
typedef struct place {
    uintptr_t slot;
    const char *name; /* the library's own text */
    void *function;   /* that is to be there */
    int protection;   /* of its page */
    int math;         /* the function's number in math.h; -1: it is none of those */
} place;

/* Kept for as long as the process lives, as the library is. */
struct kilni_watched {
    const struct link_map *map;
    kilni_watched *next;
    /* How often places were found to lead elsewhere and were taken back. Who takes back adds before
     * it writes a place, which is a release; are_taken reads that with acquire, so that who sees
     * the place as it is to be, and asks for the number then, sees it grown. */
    _Atomic uint64_t taken_back;
    size_t count;
    place places[];
};

/* Guards the list of libraries and how their pages are mapped. The loader is asked for nothing
 * while it is held: who has the loader's lock may be about to fork. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kilni_watched *libraries;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static pthread_once_t once_registered = PTHREAD_ONCE_INIT;
static int is_registered;

static void register_forks(void)
{
    is_registered = pthread_atfork(before_fork, after_fork, after_fork) == 0;
}

/* ---- places ---- */

static void *get(const place *p)
{
    void *const *slot = (void *const *)p->slot; /* NOLINT: where the loader put it */
    return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

static int are_taken(const kilni_watched *library)
{
    for (size_t i = 0; i < library->count; i++) {
        if (get(&library->places[i]) != library->places[i].function) {
            return 0;
        }
    }
    return 1;
}

/* ---- whose a function is ---- */

static const struct link_map *map_of(const void *address)
{
    Dl_info unused;
    struct link_map *map = NULL;
    return address && dladdr1(address, &unused, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* Whether a place may be taken that leads there: to a function of that name, or into the library
 * itself, where the loader has yet to look for it. Otherwise somebody else has taken it. */
static int is_free(const struct link_map *map, const place *p, const void *address)
{
    const struct link_map *owner = map_of(address);
    return !address || owner == map || (owner && kilni_symbols_define(owner, p->name));
}

/* ---- functions that fold constants ---- */

/* The function that the library's first call through a place would reach. On x86, calling a place
 * that the loader has yet to fill makes the loader fill it. Elsewhere the loader is asked for the
 * function. */
static void *find_function(const struct link_map *map, const place *p)
{
    void *address = get(p);
    if (!address || map_of(address) != map) {
        return address;
    }
#if defined(__x86_64__)
    kilni_math_try(p->math, address);
    return get(p);
#else
    address = dlsym(RTLD_DEFAULT, p->name);
    dlerror(); /* no other reader's affair */
    return address;
#endif
}

/* Our function calls the one that it replaces, and so does the check whether its answers are still
 * the same. So that one must be known before its place is taken. Another thread may have done both
 * meanwhile. */
static int find_math(const struct link_map *map, const place *p)
{
    if (get(p) == p->function) {
        return kilni_math_get_function(p->math) != NULL;
    }
    void *address = find_function(map, p);
    return address == p->function ||
           (address && is_free(map, p, address) && kilni_math_set_function(p->math, address));
}

static kiln_status find_all_math(const kilni_watched *library)
{
    for (size_t i = 0; i < library->count; i++) {
        const place *p = &library->places[i];
        if (p->math >= 0 && !find_math(library->map, p)) {
            return KILN_E_UNSUPPORTED;
        }
    }
    return KILN_OK;
}

/* ---- taking them ---- */

/* Puts the function there in place of what was there before; unless that is another by now. The
 * loader may have made the place read-only, once it was filled. */
static int exchange(const place *p, void *before)
{
    const uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)(p->slot & ~(page_size - 1)); /* NOLINT: where the loader put it */
    void **slot = (void **)p->slot;                    /* NOLINT */
    if (mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0) {
        return 0;
    }
    __atomic_compare_exchange_n(slot, &before, p->function, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return (p->protection & PROT_WRITE) || mprotect(page, page_size, p->protection) == 0;
}

static int take_place(const struct link_map *map, const place *p)
{
    for (void *before = get(p); before != p->function; before = get(p)) {
        if (!is_free(map, p, before)) {
            return 0;
        }
        pthread_mutex_lock(&lock);
        const int is_done = exchange(p, before);
        pthread_mutex_unlock(&lock);
        if (!is_done) {
            return 0;
        }
    }
    return 1;
}

static kiln_status take_places(const kilni_watched *library)
{
    for (size_t i = 0; i < library->count; i++) {
        if (!take_place(library->map, &library->places[i])) {
            return KILN_E_UNSUPPORTED;
        }
    }
    return KILN_OK;
}

/* ---- finding them ---- */

typedef struct collection {
    const kilni_symbols *of;
    kilni_watched *library;
    size_t room; /* beyond it places are counted alone */
} collection;

static void collect_place(void *user, const ElfW(Sym) * symbol, const char *name, uintptr_t *slot)
{
    const collection *c = user;
    const int math = kilni_math_find(name);
    void *function = math < 0 ? kilni_call_find(name) : kilni_math_call_of(math);
    if (symbol->st_shndx != SHN_UNDEF || !function) {
        return;
    }
    if (c->library->count < c->room) {
        const uintptr_t at = (uintptr_t)slot;
        const int protection = kilni_symbols_protection(c->of->map, at);
        c->library->places[c->library->count] = (place){at, name, function, protection, math};
    }
    c->library->count++;
}

static void collect(const kilni_symbols *of, kilni_watched *library, size_t room)
{
    library->count = 0;
    kilni_symbols_each_import(of, collect_place, &(collection){of, library, room});
}

static kiln_status find_places(const kilni_symbols *of, kilni_watched **ret_library)
{
    kilni_watched counted = {0};
    collect(of, &counted, 0);
    /* A library that opens no files by these functions opens them by others. */
    if (counted.count == 0) {
        return KILN_E_UNSUPPORTED;
    }
    kilni_watched *made = calloc(1, sizeof *made + counted.count * sizeof *made->places);
    if (!made) {
        return KILN_E_NO_MEMORY;
    }
    made->map = of->map;
    collect(of, made, counted.count);
    *ret_library = made;
    return KILN_OK;
}

static int calls_unknown(const kilni_symbols *of)
{
    for (size_t i = 1; i < of->count; i++) {
        const char *name = of->names + of->entries[i].st_name;
        if (of->entries[i].st_shndx == SHN_UNDEF &&
            (kilni_call_is_unknown(name) || kilni_math_is_unknown(name))) {
            return 1;
        }
    }
    return 0;
}

/* ---- putting the functions in place ---- */

/* For as long as the process lives. A program itself always is. */
static int keep_loaded(const struct link_map *map)
{
    if (!map || !map->l_name || map->l_name[0] == '\0') {
        return map != NULL;
    }
    void *handle = dlopen(map->l_name, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY);
    if (!handle) {
        dlerror(); /* no other reader's affair */
    }
    return handle != NULL;
}

/* With the lock of the libraries held. */
static kilni_watched *find_locked(const struct link_map *map)
{
    kilni_watched *found = libraries;
    while (found && found->map != map) {
        found = found->next;
    }
    return found;
}

static kilni_watched *find_library(const struct link_map *map)
{
    pthread_mutex_lock(&lock);
    kilni_watched *found = find_locked(map);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Unless another thread was first: then that one's is the library. */
static kilni_watched *add_library(kilni_watched *made)
{
    pthread_mutex_lock(&lock);
    kilni_watched *known = find_locked(made->map);
    if (!known) {
        made->next = libraries;
        libraries = made;
    }
    pthread_mutex_unlock(&lock);
    if (known) {
        free(made);
    }
    return known ? known : made;
}

static kiln_status watch_new(const struct link_map *map, kilni_watched **ret_library)
{
    kilni_symbols of;
    kilni_watched *made;
    const struct link_map *ours = map_of((const void *)(uintptr_t)&libraries); /* NOLINT */
    pthread_once(&once_registered, register_forks);
    if (!is_registered || !keep_loaded(ours) || !keep_loaded(map) || !kilni_symbols_of(map, &of) ||
        calls_unknown(&of)) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_status status = find_places(&of, &made);
    if (status != KILN_OK) {
        return status;
    }
    status = find_all_math(made);
    if (status == KILN_OK) {
        status = take_places(made);
    }
    if (status != KILN_OK) {
        free(made);
        return status;
    }
    *ret_library = add_library(made);
    return KILN_OK;
}

/* ---- the interface ---- */

kiln_status kilni_watched_find(const struct link_map *map, kilni_watched **ret_library)
{
    kilni_watched *known = find_library(map);
    if (!known) {
        return watch_new(map, ret_library);
    }
    *ret_library = known;
    return KILN_OK;
}

kiln_status kilni_watched_find_by_entry_point(const kilni_compiler *compiler, const void *address,
                                              kilni_watched **ret_library)
{
    const struct link_map *map = map_of(address);
    return map && kilni_symbols_find(map, compiler->entry_point) == address
               ? kilni_watched_find(map, ret_library)
               : KILN_E_UNSUPPORTED;
}

/* The mark is taken first: what is taken back from then on makes it another. */
kiln_status kilni_watched_take(kilni_watched *library, uint64_t *ret_mark)
{
    for (;;) {
        const uint64_t mark = atomic_load_explicit(&library->taken_back, memory_order_acquire);
        if (are_taken(library)) {
            *ret_mark = mark;
            return KILN_OK;
        }
        atomic_fetch_add_explicit(&library->taken_back, 1, memory_order_release);
        const kiln_status status = take_places(library);
        if (status != KILN_OK) {
            return status;
        }
    }
}

int kilni_watched_was_whole(const kilni_watched *library, uint64_t mark)
{
    return are_taken(library) &&
           atomic_load_explicit(&library->taken_back, memory_order_acquire) == mark;
}
