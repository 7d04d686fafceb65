/* SPDX-License-Identifier: Apache-2.0
 *
 * The audit library (rtld-audit(7)). The loader calls this library for each object that it loads
 * into the process, before it binds any symbol to the object. If the object is a libnvrtc, a
 * libnvJitLink, a library with HIPRTC's functions or AMD's comgr, this library replaces the
 * addresses of functions in the object's symbol table, in memory only. Callers then reach the
 * functions below, no matter whether they are linked to the object or use dlsym. At the first call,
 * these functions load the layer. If that fails, they call the object's functions directly.
 *
 * This library uses no C library (see device/freestanding.h).
 */
#include <dlfcn.h>
#include <stdatomic.h>

#include "ask.h"
#include "device/freestanding.h"
#include "device/hiprtc/functions.h"
#include "device/symbols.h"
#include "hooks.h"
#include "restart.h"
#include "stubs.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED unsigned la_version(unsigned version);
EXPORTED unsigned la_objopen(struct link_map *map, Lmid_t namespace_id, uintptr_t *cookie);
EXPORTED void la_preinit(uintptr_t *cookie);
EXPORTED unsigned la_objclose(uintptr_t *cookie);

/* The maximum number of libnvrtc libraries that the layer serves in a process. Most processes have
 * one, and some have two because packages bring their own. The process uses any further libnvrtc
 * without the layer. */
#define SLOT_COUNT 4u
#define LINKER_COUNT 2u

/* More than a libnvJitLink exports: 15 functions for each of 10 releases, and a few more. */
#define LINKER_FUNCTION_COUNT 192u

/* A library that the layer serves, or a place for one. */
typedef struct place {
    /* Written under the loader's lock. The contents stay in a place that is freed: when the process
     * ends, all libraries are closed, and code that runs after that might still call them. */
    struct link_map *map;
    int is_taken;

    /* The layer's data about the library. NULL: not attached yet; UNATTACHED: it must never be
     * attached. Stored with release and loaded with acquire, so that the reader sees everything
     * that the layer has written. */
    _Atomic(void *) library;
} place;

typedef struct slot {
    place in;
    kilni_nvrtc_functions real;
} slot;

typedef struct linker_slot {
    place in;
    linker_function functions[LINKER_FUNCTION_COUNT];
    size_t count;
} linker_slot;

static slot slots[SLOT_COUNT];
static linker_slot linkers[LINKER_COUNT];

/* Its address stands for "there is no layer", while NULL stands for "the layer was not loaded yet".
 * This address is never dereferenced. */
static char nothing;
#define UNATTACHED ((void *)&nothing)
#define NO_HOOKS ((const nvrtc_hooks *)(const void *)&nothing)

/* The program's C library, which is never unloaded, and libdl, which contains dlopen and the like
 * in older versions of glibc. Written under the loader's lock. Both are set before any thread can
 * reach NVRTC. */
static const struct link_map *c_library, *dl_library;

/* The program itself, which is the first object. It is closed only when the process ends by exit.
 * Written under the loader's lock. */
static const struct link_map *first_object;

/* 1 once all objects that the program starts with are loaded. Written under the loader's lock. */
static int is_started;

/* Stored with release and read with acquire, like library in a slot. */
static _Atomic(const nvrtc_hooks *) layer_hooks;

/* ---- loading the layer ---- */

typedef void *dlmopen_fn(Lmid_t namespace_id, const char *file, int mode);
typedef void *dlsym_fn(void *handle, const char *name);
typedef int dladdr_fn(const void *address, Dl_info *info);

/* Returns a function of the program's C library or of libdl; NULL if neither has it. */
static void *find_in_program(const char *name)
{
    void *found = c_library ? kilni_symbols_find(c_library, name) : NULL;
    return found || !dl_library ? found : kilni_symbols_find(dl_library, name);
}

/* Writes the path of the layer, which is beside this library. Returns 0 if the path is too long. */
static int write_layer_path(const char *own_path, char *path, size_t room)
{
    const char *name = kilni_bare_base_name(own_path);
    const size_t folder = (size_t)(name - own_path);
    if (folder + sizeof NVRTC_LAYER_FILE > room) {
        return 0;
    }
    for (size_t i = 0; i < folder; i++) {
        path[i] = own_path[i];
    }
    for (size_t i = 0; i < sizeof NVRTC_LAYER_FILE; i++) {
        path[folder + i] = NVRTC_LAYER_FILE[i];
    }
    return 1;
}

/* Loads the layer into the program's namespace, where the layer shares the program's C library and
 * threads. */
static const nvrtc_hooks *load_layer(void)
{
    dlmopen_fn *open = (dlmopen_fn *)find_in_program("dlmopen");
    dlsym_fn *find = (dlsym_fn *)find_in_program("dlsym");
    dladdr_fn *locate = (dladdr_fn *)find_in_program("dladdr");
    Dl_info self;
    char path[4096];
    if (!open || !find || !locate || !locate(&nothing, &self) || !self.dli_fname ||
        !write_layer_path(self.dli_fname, path, sizeof path)) {
        return NO_HOOKS;
    }
    void *layer = open(LM_ID_BASE, path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    nvrtc_layer_entry *entry = layer ? (nvrtc_layer_entry *)find(layer, NVRTC_LAYER_ENTRY) : NULL;
    const nvrtc_hooks *hooks = entry ? entry() : NULL;
    return hooks && hooks->version == NVRTC_HOOKS_VERSION ? hooks : NO_HOOKS;
}

/* Returns the layer's functions; NO_HOOKS if there is no layer. Several threads can load the layer
 * at the same time. All of them obtain the same functions. */
static const nvrtc_hooks *get_hooks(void)
{
    const nvrtc_hooks *hooks = atomic_load_explicit(&layer_hooks, memory_order_acquire);
    if (!hooks) {
        hooks = load_layer();
        atomic_store_explicit(&layer_hooks, hooks, memory_order_release);
    }
    return hooks;
}

static void *attach(slot *in, const nvrtc_hooks *hooks)
{
    return hooks->attach(in->in.map, &in->real);
}

static void *attach_linker(linker_slot *in, const nvrtc_hooks *hooks)
{
    return hooks->attach_linker(in->in.map, in->functions, in->count);
}

/* Returns the layer's handle of a library. The first call attaches the library. Returns NULL if
 * calls must go to the library itself. */
#define ENTER(slot, attach)                                                                        \
    void *library = atomic_load_explicit(&(slot)->in.library, memory_order_acquire);               \
    if (!library) {                                                                                \
        const nvrtc_hooks *hooks = get_hooks();                                                    \
        library = hooks == NO_HOOKS ? NULL : attach(slot, hooks);                                  \
        library = library ? library : UNATTACHED;                                                  \
        atomic_store_explicit(&(slot)->in.library, library, memory_order_release);                 \
    }                                                                                              \
    return library == UNATTACHED ? NULL : library

static nvrtc_library *enter(slot *in)
{
    ENTER(in, attach);
}

static linker_library *enter_linker(linker_slot *in)
{
    ENTER(in, attach_linker);
}

/* Returns the layer's functions, but does not load the layer. Returns NULL if the layer has not
 * been loaded yet, and NO_HOOKS if there is no layer. Once a library has been attached, the result
 * is neither of these. */
static const nvrtc_hooks *hooks(void)
{
    return atomic_load_explicit(&layer_hooks, memory_order_acquire);
}

/* ---- the replacements of NVRTC's functions; each slot has its own ---- */

#define SIZE_AND_GET(n, output, size_name, get_name)                                               \
    static int size_name##_##n(kilni_nvrtc_program program, size_t *ret_size)                      \
    {                                                                                              \
        nvrtc_library *library = enter(&slots[n]);                                                 \
        return library ? hooks()->size(library, program, output, ret_size)                         \
                       : slots[n].real.size[output](program, ret_size);                            \
    }                                                                                              \
    static int get_name##_##n(kilni_nvrtc_program program, char *bytes)                            \
    {                                                                                              \
        nvrtc_library *library = enter(&slots[n]);                                                 \
        return library ? hooks()->get(library, program, output, bytes)                             \
                       : slots[n].real.get[output](program, bytes);                                \
    }

#define FUNCTIONS_OF_SLOT(n)                                                                       \
    static int create_##n(kilni_nvrtc_program *program, const char *source, const char *name,      \
                          int header_count, const char *const *headers,                            \
                          const char *const *header_names)                                         \
    {                                                                                              \
        nvrtc_library *library = enter(&slots[n]);                                                 \
        return library ? hooks()->create(library, program, source, name, header_count, headers,    \
                                         header_names)                                             \
                       : slots[n].real.create(program, source, name, header_count, headers,        \
                                              header_names);                                       \
    }                                                                                              \
    static int destroy_##n(kilni_nvrtc_program *program)                                           \
    {                                                                                              \
        nvrtc_library *library = enter(&slots[n]);                                                 \
        return library ? hooks()->destroy(library, program) : slots[n].real.destroy(program);      \
    }                                                                                              \
    static int compile_##n(kilni_nvrtc_program program, int count, const char *const *options)     \
    {                                                                                              \
        nvrtc_library *library = enter(&slots[n]);                                                 \
        return library ? hooks()->compile(library, program, count, options)                        \
                       : slots[n].real.compile(program, count, options);                           \
    }                                                                                              \
    static int add_name_##n(kilni_nvrtc_program program, const char *expression)                   \
    {                                                                                              \
        nvrtc_library *library = enter(&slots[n]);                                                 \
        return library ? hooks()->add_name(library, program, expression)                           \
                       : slots[n].real.add_name(program, expression);                              \
    }                                                                                              \
    static int lowered_name_##n(kilni_nvrtc_program program, const char *expression,               \
                                const char **ret_name)                                             \
    {                                                                                              \
        nvrtc_library *library = enter(&slots[n]);                                                 \
        return library ? hooks()->lowered_name(library, program, expression, ret_name)             \
                       : slots[n].real.lowered_name(program, expression, ret_name);                \
    }                                                                                              \
    static int set_callback_##n(kilni_nvrtc_program program, kilni_nvrtc_flow_callback callback,   \
                                void *payload)                                                     \
    {                                                                                              \
        nvrtc_library *library = enter(&slots[n]);                                                 \
        return library ? hooks()->set_callback(library, program, callback, payload)                \
                       : slots[n].real.set_callback(program, callback, payload);                   \
    }                                                                                              \
    SIZE_AND_GET(n, KILNI_NVRTC_LOG, log_size, log)                                                \
    SIZE_AND_GET(n, KILNI_NVRTC_PTX, ptx_size, ptx)                                                \
    SIZE_AND_GET(n, KILNI_NVRTC_CUBIN, cubin_size, cubin)                                          \
    SIZE_AND_GET(n, KILNI_NVRTC_LTOIR, ltoir_size, ltoir)                                          \
    SIZE_AND_GET(n, KILNI_NVRTC_OPTIXIR, optixir_size, optixir)                                    \
    SIZE_AND_GET(n, KILNI_NVRTC_NVVM, nvvm_size, nvvm)                                             \
    SIZE_AND_GET(n, KILNI_HIPRTC_LOG, hip_log_size, hip_log)                                       \
    SIZE_AND_GET(n, KILNI_HIPRTC_CODE, hip_code_size, hip_code)                                    \
    SIZE_AND_GET(n, KILNI_HIPRTC_BITCODE, hip_bitcode_size, hip_bitcode)

FUNCTIONS_OF_SLOT(0)
FUNCTIONS_OF_SLOT(1)
FUNCTIONS_OF_SLOT(2)
FUNCTIONS_OF_SLOT(3)

#define TABLE_OF_SLOT(n)                                                                           \
    {                                                                                              \
        .create = create_##n, .destroy = destroy_##n, .compile = compile_##n,                      \
        .add_name = add_name_##n, .lowered_name = lowered_name_##n,                                \
        .set_callback = set_callback_##n,                                                          \
        .size = {[KILNI_NVRTC_LOG] = log_size_##n,                                                 \
                 [KILNI_NVRTC_PTX] = ptx_size_##n,                                                 \
                 [KILNI_NVRTC_CUBIN] = cubin_size_##n,                                             \
                 [KILNI_NVRTC_LTOIR] = ltoir_size_##n,                                             \
                 [KILNI_NVRTC_OPTIXIR] = optixir_size_##n,                                         \
                 [KILNI_NVRTC_NVVM] = nvvm_size_##n,                                               \
                 [KILNI_HIPRTC_LOG] = hip_log_size_##n,                                            \
                 [KILNI_HIPRTC_CODE] = hip_code_size_##n,                                          \
                 [KILNI_HIPRTC_BITCODE] = hip_bitcode_size_##n},                                   \
        .get = {[KILNI_NVRTC_LOG] = log_##n,                                                       \
                [KILNI_NVRTC_PTX] = ptx_##n,                                                       \
                [KILNI_NVRTC_CUBIN] = cubin_##n,                                                   \
                [KILNI_NVRTC_LTOIR] = ltoir_##n,                                                   \
                [KILNI_NVRTC_OPTIXIR] = optixir_##n,                                               \
                [KILNI_NVRTC_NVVM] = nvvm_##n,                                                     \
                [KILNI_HIPRTC_LOG] = hip_log_##n,                                                  \
                [KILNI_HIPRTC_CODE] = hip_code_##n,                                                \
                [KILNI_HIPRTC_BITCODE] = hip_bitcode_##n},                                         \
    }

static const kilni_nvrtc_functions replacements[SLOT_COUNT] = {TABLE_OF_SLOT(0), TABLE_OF_SLOT(1),
                                                               TABLE_OF_SLOT(2), TABLE_OF_SLOT(3)};

static int report_unknown(const void *owner, size_t number,
                          const void *const arguments[NVRTC_ARGUMENT_REGISTERS], int *ret_result)
{
    const nvrtc_hooks *loaded = hooks();
    (void)owner, (void)number, (void)ret_result;
    if (loaded && loaded != NO_HOOKS) {
        loaded->before_unknown(arguments);
    }
    return 0;
}

/* ---- the replacement of each function of nvJitLink ---- */

static int call_linker(const void *owner, size_t number,
                       const void *const arguments[NVRTC_ARGUMENT_REGISTERS], int *ret_result)
{
    linker_slot *in = linkers;
    while (in != owner) {
        in++;
    }
    linker_library *library = enter_linker(in);
    return library ? hooks()->link_call(library, number, arguments, ret_result) : 0;
}

/* ---- the replacement of comgr's function that compiles and links ---- */

/* amd_comgr_do_action: its arguments are an enumeration and handles, which are structures with one
 * number. */
typedef int action_fn(int kind, uint64_t information, uint64_t input, uint64_t result);

/* The function, and the library that has it; NULL: there is none. The former stays when the library
 * is closed, as the contents of a place do. Written under the loader's lock. */
static action_fn *real_action;
static const struct link_map *comgr;

static int do_action(int kind, uint64_t information, uint64_t input, uint64_t result)
{
    const nvrtc_hooks *loaded = get_hooks();
    if (loaded == NO_HOOKS) {
        return real_action(kind, information, input, result);
    }
    loaded->action_begins();
    const int status = real_action(kind, information, input, result);
    loaded->action_ends();
    return status;
}

/* ---- objects that enter the process ---- */

/* Returns true if the layer does not replace this function. Such a function concerns no program, or
 * only precompiled headers. For a program that was not compiled, functions for precompiled headers
 * give the same answers as for a program that was compiled without such headers. */
static int is_left_alone(const char *name)
{
    static const char names[][32] = {"nvrtcVersion",
                                     "nvrtcGetErrorString",
                                     "nvrtcGetNumSupportedArchs",
                                     "nvrtcGetSupportedArchs",
                                     "nvrtcGetPCHHeapSize",
                                     "nvrtcSetPCHHeapSize",
                                     "nvrtcGetPCHCreateStatus",
                                     "nvrtcGetPCHHeapSizeRequired",
                                     "hiprtcVersion",
                                     "hiprtcGetErrorString",
                                     "hiprtcLinkCreate",
                                     "hiprtcLinkAddFile",
                                     "hiprtcLinkAddData",
                                     "hiprtcLinkDestroy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (kilni_bare_equal(name, names[i])) {
            return 1;
        }
    }
    return 0;
}

/* Returns the stub that replaces an unknown function. Returns NULL if no stub is left. The layer
 * then cannot observe what the function does to programs, so this libnvrtc is never attached. */
static void *replace_unknown(slot *in, void *address)
{
    void *watching = stub_new(in, 0, address, report_unknown);
    if (!watching) {
        atomic_store_explicit(&in->in.library, UNATTACHED, memory_order_release);
    }
    return watching;
}

static int report_hip_link(const void *owner, size_t number,
                           const void *const arguments[NVRTC_ARGUMENT_REGISTERS], int *ret_result)
{
    const nvrtc_hooks *loaded = get_hooks();
    (void)owner, (void)number, (void)arguments, (void)ret_result;
    if (loaded != NO_HOOKS) {
        loaded->before_hip_link();
    }
    return 0;
}

/* Remembers one of the library's functions, and returns its replacement, or NULL if the function
 * must stay as it is. */
static void *replace_function(void *user, const char *name, void *address)
{
    slot *in = user;
    const size_t n = (size_t)(in - slots);
#define PICK(member, type, exported)                                                               \
    if (kilni_bare_equal(name, exported)) {                                                        \
        in->real.member = (type *)address;                                                         \
        return (void *)replacements[n].member;                                                     \
    }
    KILNI_NVRTC_FUNCTIONS(PICK)
    KILNI_HIPRTC_FUNCTIONS(PICK)
#undef PICK
    if (kilni_bare_equal(name, "hiprtcLinkComplete")) {
        return stub_new(in, 0, address, report_hip_link);
    }
    const int is_of_runtime = kilni_bare_begins_with(name, "nvrtc") ||
                              kilni_bare_begins_with(name, "__nvrtc") ||
                              kilni_bare_begins_with(name, "hiprtc");
    return is_of_runtime && !is_left_alone(name) ? replace_unknown(in, address) : NULL;
}

/* Replaces a function of nvJitLink, known or not. nvJitLinkVersion concerns no link. */
static void *replace_linker_function(void *user, const char *name, void *address)
{
    linker_slot *in = user;
    if ((!kilni_bare_begins_with(name, "nvJitLink") &&
         !kilni_bare_begins_with(name, "__nvJitLink")) ||
        kilni_bare_equal(name, "nvJitLinkVersion")) {
        return NULL;
    }
    void *stub =
        in->count < LINKER_FUNCTION_COUNT ? stub_new(in, in->count, address, call_linker) : NULL;
    if (!stub) {
        atomic_store_explicit(&in->in.library, UNATTACHED, memory_order_release);
        return NULL;
    }
    in->functions[in->count++] = (linker_function){name, address};
    return stub;
}

static int is_nvrtc(const char *file)
{
    return kilni_bare_begins_with(file, "libnvrtc") &&
           !kilni_bare_begins_with(file, "libnvrtc-builtins");
}

/* HIPRTC is a part of HIP's runtime, or, since 5.3, a library of its own. */
static int is_hiprtc(const char *file)
{
    return kilni_bare_begins_with(file, "libamdhip64") ||
           (kilni_bare_begins_with(file, "libhiprtc") &&
            !kilni_bare_begins_with(file, "libhiprtc-builtins"));
}

static int is_linker(const char *file)
{
    return kilni_bare_begins_with(file, "libnvJitLink");
}

/* Removes an earlier library from its place, because versions have different functions. */
static void clear(place *in, const void *owner)
{
    stubs_forget(owner);
    atomic_store_explicit(&in->library, NULL, memory_order_relaxed);
}

static void take_nvrtc(struct link_map *map, const kilni_symbols *symbols)
{
    slot *in = slots;
    while (in < slots + SLOT_COUNT && in->in.is_taken) {
        in++;
    }
    if (in < slots + SLOT_COUNT) {
        clear(&in->in, in);
#define CLEAR(member, type, exported) in->real.member = NULL;
        KILNI_NVRTC_FUNCTIONS(CLEAR)
        KILNI_HIPRTC_FUNCTIONS(CLEAR)
#undef CLEAR
        in->in.map = map;
        in->in.is_taken = kilni_symbols_replace(symbols, replace_function, in);
    }
}

static void take_linker(struct link_map *map, const kilni_symbols *symbols)
{
    linker_slot *in = linkers;
    while (in < linkers + LINKER_COUNT && in->in.is_taken) {
        in++;
    }
    if (in < linkers + LINKER_COUNT) {
        clear(&in->in, in);
        in->count = 0;
        in->in.map = map;
        in->in.is_taken = kilni_symbols_replace(symbols, replace_linker_function, in);
    }
}

static void *replace_action(void *user, const char *name, void *address)
{
    (void)user;
    if (!kilni_bare_equal(name, "amd_comgr_do_action")) {
        return NULL;
    }
    real_action = (action_fn *)address;
    return (void *)do_action;
}

/* Nothing is kept in a process with two such libraries, so only the first is replaced. */
static void take_comgr(struct link_map *map, const kilni_symbols *symbols)
{
    if (!comgr && kilni_symbols_replace(symbols, replace_action, NULL)) {
        comgr = map;
    }
}

static void take_library(struct link_map *map, const kilni_symbols *symbols)
{
    const char *file = kilni_bare_base_name(map->l_name ? map->l_name : "");
    if (((is_nvrtc(symbols->soname) || is_nvrtc(file)) &&
         kilni_symbols_find(map, "nvrtcCompileProgram")) ||
        ((is_hiprtc(symbols->soname) || is_hiprtc(file)) &&
         kilni_symbols_find(map, "hiprtcCompileProgram"))) {
        take_nvrtc(map, symbols);
    } else if ((is_linker(symbols->soname) || is_linker(file)) &&
               kilni_symbols_find(map, "nvJitLinkComplete")) {
        take_linker(map, symbols);
    } else if (kilni_bare_begins_with(file, "libamd_comgr.so") ||
               kilni_bare_begins_with(symbols->soname, "libamd_comgr.so")) {
        take_comgr(map, symbols);
    }
}

static void remember_c_library(const kilni_symbols *symbols)
{
    if (!c_library && kilni_bare_begins_with(symbols->soname, "libc.so.")) {
        c_library = symbols->map;
    } else if (!dl_library && kilni_bare_begins_with(symbols->soname, "libdl.so.")) {
        dl_library = symbols->map;
    }
}

/* Receives the program's arguments and environment, before the loader loads the program's
 * objects. */
__attribute__((constructor)) static void remember_start(int count, char **arguments,
                                                        char **environment)
{
    (void)count;
    restart_prepare(arguments, environment);
    ask_prepare(environment);
}

unsigned la_version(unsigned version)
{
    return version;
}

/* Called when all objects that the program starts with are loaded, before any of its code runs. */
void la_preinit(uintptr_t *cookie)
{
    (void)cookie;
    is_started = 1;
}

/* Called for each object that is loaded. Returns 0, so the loader does not report bindings. */
unsigned la_objopen(struct link_map *map, Lmid_t namespace_id, uintptr_t *cookie)
{
    kilni_symbols symbols;
    *cookie = (uintptr_t)map;
    first_object = first_object ? first_object : map;
    if (namespace_id == LM_ID_BASE && kilni_symbols_of(map, &symbols)) {
        if (!is_started) {
            restart_unless_suitable(&symbols);
        }
        remember_c_library(&symbols);
        take_library(map, &symbols);
        ask_for_library(map->l_name);
    }
    return 0;
}

static void close_library(place *in, uintptr_t cookie)
{
    void *expected = NULL;
    if (in->is_taken && (uintptr_t)in->map == cookie &&
        (atomic_compare_exchange_strong_explicit(&in->library, &expected, UNATTACHED,
                                                 memory_order_acq_rel, memory_order_acquire) ||
         expected == UNATTACHED)) {
        in->is_taken = 0;
    }
}

/* Called when an object is closed. An attached library keeps its place, since it is closed only
 * when the process ends. Any other library loses its place. If the process is ending, later calls
 * of such a library bypass the layer. */
unsigned la_objclose(uintptr_t *cookie)
{
    if ((uintptr_t)first_object == *cookie) {
        ask_say_bye();
    }
    dl_library = (uintptr_t)dl_library == *cookie ? NULL : dl_library;
    comgr = (uintptr_t)comgr == *cookie ? NULL : comgr;
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        close_library(&slots[i].in, *cookie);
    }
    for (size_t i = 0; i < LINKER_COUNT; i++) {
        close_library(&linkers[i].in, *cookie);
    }
    return 0;
}
