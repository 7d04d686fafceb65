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
#include "device/watch/intercepted_calls.h"
#include "device/watch/math.h"
#include "device/watch/math_calls.h"

/* A slot through which a watched library calls a function that it imports. */
typedef struct import_slot {
    uintptr_t slot;
    const char *name; /* in the library's own string table */
    void *function;   /* the replacement that Kiln writes into the slot */
    int protection;   /* of the slot's page */
    int math;         /* the function's number in math.h; -1: it is not listed there */
} import_slot;

/* Kept until the process ends, like the library itself. */
struct kilni_watched {
    const struct link_map *map;
    kilni_watched *next;
    /* Counts how often overwritten slots were redirected again. A thread increments this before it
     * writes a slot with release; are_in_place reads the slot with acquire. So a thread that sees
     * the restored slot, and then reads this number, sees the increment. */
    _Atomic uint64_t restored_count;
    size_t count;
    import_slot imports[];
};

/* Guards the list of libraries. A thread must not call the loader while it holds this lock. The
 * reason is that the thread with the loader's lock might be about to fork, and the fork handler
 * takes this lock. */
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

/* ---- slots ---- */

static void *get(const import_slot *p)
{
    void *const *slot = (void *const *)p->slot; /* NOLINT: the loader provides the address */
    return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

static int are_in_place(const kilni_watched *library)
{
    for (size_t i = 0; i < library->count; i++) {
        if (get(&library->imports[i]) != library->imports[i].function) {
            return 0;
        }
    }
    return 1;
}

/* ---- which slots Kiln may replace ---- */

static const struct link_map *map_of(const void *address)
{
    Dl_info unused;
    struct link_map *map = NULL;
    return address && dladdr1(address, &unused, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* Returns 1 if Kiln is allowed to replace the content of a slot. The content can be NULL, a
 * function with the import's name, or an address in the library itself, which makes the loader look
 * up the function. Any other content means that a different tool has redirected the slot. */
static int may_replace(const struct link_map *map, const import_slot *p, const void *address)
{
    const struct link_map *owner = map_of(address);
    return !address || owner == map || (owner && kilni_symbols_define(owner, p->name));
}

/* ---- functions that fold constants ---- */

/* Returns the function that the library's first call through a slot would reach. If the loader has
 * not filled the slot yet, calls through the slot on x86-64, which makes the loader fill it. On
 * other processors, asks the loader for the function. */
static void *find_function(const struct link_map *map, const import_slot *p)
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
    dlerror(); /* cleared, so that no other caller sees it */
    return address;
#endif
}

/* Finds and records the function that a slot's replacement must call. Later, Kiln calls the same
 * function to check whether its results have changed. So the function must be known before the slot
 * is redirected. Another thread might already have found the function and redirected the slot. */
static int find_math(const struct link_map *map, const import_slot *p)
{
    if (get(p) == p->function) {
        return kilni_math_get_function(p->math) != NULL;
    }
    void *address = find_function(map, p);
    return address == p->function ||
           (address && may_replace(map, p, address) && kilni_math_set_function(p->math, address));
}

static kiln_status find_all_math(const kilni_watched *library)
{
    for (size_t i = 0; i < library->count; i++) {
        const import_slot *p = &library->imports[i];
        if (p->math >= 0 && !find_math(library->map, p)) {
            return KILN_E_UNSUPPORTED;
        }
    }
    return KILN_OK;
}

/* ---- redirecting slots ---- */

typedef struct replacement {
    const import_slot *p;
    void *before;
    int is_done;
} replacement;

/* Stores the replacement in the slot, unless the slot has changed meanwhile. If the loader has
 * filled the slot, it might have made the slot read-only. */
static int replace(const replacement *r)
{
    const import_slot *p = r->p;
    void *before = r->before;
    const uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)(p->slot & ~(page_size - 1)); /* NOLINT: the loader provides the address */
    void **slot = (void **)p->slot;                    /* NOLINT */
    if (mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0) {
        return 0;
    }
    __atomic_compare_exchange_n(slot, &before, p->function, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return (p->protection & PROT_WRITE) || mprotect(page, page_size, p->protection) == 0;
}

/* Called under the loader's lock. Returns 1, which stops the iteration. */
static int replace_once(struct dl_phdr_info *unused, size_t size, void *user)
{
    replacement *r = user;
    (void)unused, (void)size;
    r->is_done = replace(r);
    return 1;
}

static int redirect_slot(const struct link_map *map, const import_slot *p)
{
    for (void *before = get(p); before != p->function; before = get(p)) {
        if (!may_replace(map, p, before)) {
            return 0;
        }
        /* If the process has a second copy of Kiln, that copy must not make the page read-only in
         * the meantime. The only lock that all copies share is the lock that the loader holds
         * during dl_iterate_phdr. */
        replacement r = {.p = p, .before = before};
        dl_iterate_phdr(replace_once, &r);
        if (!r.is_done) {
            return 0;
        }
    }
    return 1;
}

static kiln_status redirect_slots(const kilni_watched *library)
{
    for (size_t i = 0; i < library->count; i++) {
        if (!redirect_slot(library->map, &library->imports[i])) {
            return KILN_E_UNSUPPORTED;
        }
    }
    return KILN_OK;
}

/* ---- finding slots ---- */

typedef struct collection {
    const kilni_symbols *of;
    kilni_watched *library;
    int with_math;
    int opens_streams; /* see intercepted_calls.h */
    size_t room;       /* imports for which there is no room are only counted */
} collection;

static void collect_import(void *user, const ElfW(Sym) * symbol, const char *name, uintptr_t *slot)
{
    const collection *c = user;
    const int math = c->with_math ? kilni_math_find(name) : -1;
    void *function = math < 0 ? kilni_call_find(name, c->opens_streams) : kilni_math_call_of(math);
    if (symbol->st_shndx != SHN_UNDEF || !function) {
        return;
    }
    if (c->library->count < c->room) {
        const uintptr_t at = (uintptr_t)slot;
        const int protection = kilni_symbols_protection(c->of->map, at);
        c->library->imports[c->library->count] =
            (import_slot){at, name, function, protection, math};
    }
    c->library->count++;
}

static int opens_streams(const kilni_symbols *of)
{
    int opens = 0;
    for (size_t i = 1; i < of->count && !opens; i++) {
        opens = of->entries[i].st_shndx == SHN_UNDEF &&
                kilni_call_opens_stream(of->names + of->entries[i].st_name);
    }
    return opens;
}

static void collect(const kilni_symbols *of, int with_math, kilni_watched *library, size_t room)
{
    library->count = 0;
    kilni_symbols_each_import(of, collect_import,
                              &(collection){of, library, with_math, opens_streams(of), room});
}

static kiln_status find_imports(const kilni_symbols *of, int with_math, kilni_watched **ret_library)
{
    kilni_watched counted = {0};
    collect(of, with_math, &counted, 0);
    /* A library that imports none of these functions must open its files by other means. */
    if (counted.count == 0) {
        return KILN_E_UNSUPPORTED;
    }
    kilni_watched *made = calloc(1, sizeof *made + counted.count * sizeof *made->imports);
    if (!made) {
        return KILN_E_NO_MEMORY;
    }
    made->map = of->map;
    collect(of, with_math, made, counted.count);
    *ret_library = made;
    return KILN_OK;
}

static int imports_unobserved(const kilni_symbols *of, int with_math)
{
    const int with_streams = opens_streams(of);
    for (size_t i = 1; i < of->count; i++) {
        const char *name = of->names + of->entries[i].st_name;
        if (of->entries[i].st_shndx == SHN_UNDEF && (kilni_call_is_unobserved(name, with_streams) ||
                                                     (with_math && kilni_math_is_unlisted(name)))) {
            return 1;
        }
    }
    return 0;
}

/* ---- watching a library ---- */

/* Keeps an object loaded until the process ends. The program itself stays loaded in any case. */
static int keep_loaded(const struct link_map *map)
{
    if (!map || !map->l_name || map->l_name[0] == '\0') {
        return map != NULL;
    }
    void *handle = dlopen(map->l_name, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY);
    if (!handle) {
        dlerror(); /* cleared, so that no other caller sees it */
    }
    return handle != NULL;
}

/* The caller must hold the lock of the list. */
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

/* Adds a library to the list, and returns it. If another thread has added the library meanwhile,
 * frees @made and returns the library that is in the list. */
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

static kiln_status watch_new(const struct link_map *map, int with_math, kilni_watched **ret_library)
{
    kilni_symbols of;
    kilni_watched *made;
    const struct link_map *ours = map_of((const void *)(uintptr_t)&libraries); /* NOLINT */
    pthread_once(&once_registered, register_forks);
    if (!is_registered || !keep_loaded(ours) || !keep_loaded(map) || !kilni_symbols_of(map, &of) ||
        imports_unobserved(&of, with_math)) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_status status = find_imports(&of, with_math, &made);
    if (status != KILN_OK) {
        return status;
    }
    status = find_all_math(made);
    if (status == KILN_OK) {
        status = redirect_slots(made);
    }
    if (status != KILN_OK) {
        free(made);
        return status;
    }
    *ret_library = add_library(made);
    return KILN_OK;
}

/* ---- the interface ---- */

static kiln_status find_or_watch(const struct link_map *map, int with_math,
                                 kilni_watched **ret_library)
{
    kilni_watched *known = find_library(map);
    if (!known) {
        return watch_new(map, with_math, ret_library);
    }
    *ret_library = known;
    return KILN_OK;
}

kiln_status kilni_watched_find(const struct link_map *map, kilni_watched **ret_library)
{
    return find_or_watch(map, 1, ret_library);
}

kiln_status kilni_watched_find_reads(const struct link_map *map, kilni_watched **ret_library)
{
    return find_or_watch(map, 0, ret_library);
}

kiln_status kilni_watched_find_by_entry_point(const kilni_compiler *compiler, const void *address,
                                              kilni_watched **ret_library)
{
    const struct link_map *map = map_of(address);
    return map && kilni_symbols_find(map, compiler->entry_point) == address
               ? kilni_watched_find(map, ret_library)
               : KILN_E_UNSUPPORTED;
}

/* Reads the mark first. If any slot is restored afterwards, the count then differs from the
 * mark. */
kiln_status kilni_watched_restore(kilni_watched *library, uint64_t *ret_mark)
{
    for (;;) {
        const uint64_t mark = atomic_load_explicit(&library->restored_count, memory_order_acquire);
        if (are_in_place(library)) {
            *ret_mark = mark;
            return KILN_OK;
        }
        atomic_fetch_add_explicit(&library->restored_count, 1, memory_order_release);
        const kiln_status status = redirect_slots(library);
        if (status != KILN_OK) {
            return status;
        }
    }
}

int kilni_watched_is_unchanged(const kilni_watched *library, uint64_t mark)
{
    return are_in_place(library) &&
           atomic_load_explicit(&library->restored_count, memory_order_acquire) == mark;
}
