/* SPDX-License-Identifier: Apache-2.0
 *
 * What the environment says, in one of three profiles: variables, units and defaults of Kiln's own,
 * of the SYCL runtime's caches, or of oneDNN's. docs/configuration.md lists them all. The library
 * reads no environment by itself (but for the one variable of kiln/constant.h): who wants it read
 * calls this, and passes on what it finds:
 *
 *     kiln_config_from_profile(KILN_PROFILE_SYCL, NULL, NULL, &config);
 *
 *     kiln_store_params on_disk = {.struct_size = sizeof on_disk};
 *     kiln_config_get_store(config, &on_disk);
 *     if (kiln_config_location(config)) {
 *         kiln_store_open(kiln_config_location(config), &on_disk, &store, &error);
 *     }
 *     kiln_cache_params in_memory = {.struct_size = sizeof in_memory};
 *     kiln_config_get_memory(config, &in_memory);
 *     in_memory.destroy = destroy;
 *     kiln_cache_new(&in_memory, &cache);
 */
#ifndef KILN_CONFIG_H
#define KILN_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>
#include <kiln/program.h>
#include <kiln/status.h>
#include <kiln/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable. Any thread. */
typedef struct kiln_config kiln_config;

/* Looks a variable up; NULL where it isn't set. */
typedef const char *(*kiln_lookup_fn)(void *user, const char *name);

/* Whose variables, units and defaults. All profiles read KILN_READONLY, KILN_DISABLE, KILN_HELPER,
 * KILN_TOOL, KILN_TRACE, KILN_STATS, KILN_KEY_FILE, KILN_KEY_ENV and KILN_LAST_MISS besides. */
typedef enum kiln_profile {
    KILN_PROFILE_KILN = 0,  /* KILN_DIR, KILN_MAX_SIZE */
    KILN_PROFILE_SYCL = 1,  /* SYCL_CACHE_…, SYCL_IN_MEM_CACHE_EVICTION_THRESHOLD */
    KILN_PROFILE_ONEDNN = 2 /* ONEDNN_PERSISTENT_CACHE_…, ONEDNN_PRIMITIVE_CACHE_CAPACITY */
} kiln_profile;

/* "kiln", "sycl", "onednn"; NULL for a value that is none. Static text. */
KILN_API const char *kiln_profile_name(uint32_t profile);

/* Reads a profile's name. Returns KILN_OK; KILN_E_PARSE; KILN_E_INVALID. */
KILN_API kiln_status kiln_profile_parse(const char *text, uint32_t *ret_profile);

/* Reads the configuration. A wrong value is kept as a complaint that names it, and the default is
 * used. An empty value means the same as none.
 *
 * @profile     kiln_profile
 * @lookup      NULL: the process's environment, as secure_getenv sees it
 * @ret_config  [out] to be given back with kiln_config_free
 * Returns KILN_OK; KILN_E_INVALID: no such profile; KILN_E_NO_MEMORY. Threads: any that may read
 * the environment. Blocks: never. */
KILN_API kiln_status kiln_config_from_profile(uint32_t profile, kiln_lookup_fn lookup, void *user,
                                              kiln_config **ret_config);

/* The same for KILN_PROFILE_KILN. */
KILN_API kiln_status kiln_config_from_env(kiln_lookup_fn lookup, void *user,
                                          kiln_config **ret_config);

/* Sets the pointer to NULL; takes NULL and a pointer to NULL. */
KILN_API void kiln_config_free(kiln_config **config);

/* ---- what is kept on disk. Texts live as long as the configuration. ---- */

/* The location that kiln_store_open is to be given; NULL: nothing is kept on disk. */
KILN_API const char *kiln_config_location(const kiln_config *config);

/* Fills the parameters that go with it: size, layout, policy, age, flags and key file. The log is
 * the caller's to add.
 *
 * @ret_params  filled as far as its struct_size says; texts in it live as long as @config
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_config_get_store(const kiln_config *config,
                                           kiln_store_params *ret_params);

/* The location, also where nothing is kept; NULL: none can be told. An absolute path, or its URL
 * where a path would mean something else, but for the default of profile onednn, which is
 * KILN_PERSISTENT_DEFAULT_DIR.
 * kiln: KILN_DIR, else $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln. KILN_DIR may also be a URL, or
 * several places in a chain: whatever kiln_store_open takes; then that is what this gives.
 * sycl: SYCL_CACHE_DIR, else $XDG_CACHE_HOME/libsycl_cache, else $HOME/.cache/libsycl_cache.
 * onednn: ONEDNN_PERSISTENT_CACHE_DIR, else in the working directory. */
KILN_API const char *kiln_config_dir(const kiln_config *config);

/* What may be kept there, in bytes; 0: nothing; KILN_UNLIMITED. */
KILN_API uint64_t kiln_config_max_bytes(const kiln_config *config);

/* How large a device image has to be, and may be, to be kept on disk: SYCL_CACHE_MIN_ and
 * SYCL_CACHE_MAX_DEVICE_IMAGE_SIZE. In the other profiles 0 and KILN_UNLIMITED. */
KILN_API uint64_t kiln_config_min_image_bytes(const kiln_config *config);
KILN_API uint64_t kiln_config_max_image_bytes(const kiln_config *config);

/* ---- what is kept in memory ---- */

/* Fills what kiln_cache_new is to be given: bounds, policy, and whether failures are kept or the
 * cache is off. The destroy function is the caller's to add.
 *
 * @ret_params  filled as far as its struct_size says
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_config_get_memory(const kiln_config *config,
                                            kiln_cache_params *ret_params);

/* Fills what the environment decides of programs: the map's bounds, policy and flags, image sizes,
 * replaced and appended options, and with KILN_PROFILE_SYCL the rules. Everything else stays as it
 * is.
 *
 * @params  with its struct_size; texts in it live as long as @config
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_config_get_programs(const kiln_config *config,
                                              kiln_program_context_params *params);

/* ---- the rest ---- */

/* KILN_READONLY, KILN_DISABLE: 0 or 1. */
KILN_API int kiln_config_readonly(const kiln_config *config);
KILN_API int kiln_config_disabled(const kiln_config *config);

/* KILN_HELPER: 1 unless it says 0: then no process is started to capture what is dear to capture,
 * and requests wait for `kiln capture`. */
KILN_API int kiln_config_helper(const kiln_config *config);

/* KILN_LAST_MISS: 0 or 1: whether the store keeps the last key that it did not have, for `kiln why`
 * (KILN_STORE_NOTE_MISSES). */
KILN_API int kiln_config_last_miss(const kiln_config *config);

/* KILN_TOOL: the `kiln` tool's path, as `kiln run` passes it to the programs it runs; NULL: none.
 */
KILN_API const char *kiln_config_tool(const kiln_config *config);

/* KILN_TRACE: a file, "-" for stderr; NULL: none. With SYCL_CACHE_TRACE "-" where it isn't set. */
KILN_API const char *kiln_config_trace(const kiln_config *config);

/* SYCL_CACHE_TRACE: KILN_TRACE_… added up; 0 in the other profiles. */
KILN_API uint32_t kiln_config_trace_events(const kiln_config *config);

enum {
    KILN_TRACE_DISK = 1u,
    KILN_TRACE_MEMORY = 2u,
    KILN_TRACE_COMPILER = 4u, /* the caches of sources that a program compiles at run time */
    KILN_TRACE_ALL = 7u
};

/* KILN_STATS: a file to which each process adds its counters (kiln run --summary); NULL: none. */
KILN_API const char *kiln_config_stats(const kiln_config *config);

/* KILN_KEY_FILE: the key file of the store (kiln_store_params); NULL: none. As it was given: a
 * store whose key file can't be used is not opened, so that a wrong value, "" too, believes
 * nothing. */
KILN_API const char *kiln_config_key_file(const kiln_config *config);

/* KILN_KEY_ENV: further variables that decide what a build yields; separated by commas, a trailing
 * '*' stands for any ending. @index from 0; NULL: no more. */
KILN_API const char *kiln_config_key_variable(const kiln_config *config, size_t index);

/* A line for each wrong value: "KILN_MAX_SIZE=3X: …". @index from 0; NULL: no more. */
KILN_API const char *kiln_config_complaint(const kiln_config *config, size_t index);

/* Reads a size: digits and one optional suffix K M G T (of 1024), upper or lower case.
 * Returns KILN_OK; KILN_E_PARSE: anything else, too large a number included. */
KILN_API kiln_status kiln_size_parse(const char *text, uint64_t *ret_bytes);

#ifdef __cplusplus
}
#endif

#endif
