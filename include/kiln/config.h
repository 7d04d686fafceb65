/* SPDX-License-Identifier: Apache-2.0
 *
 * What the environment says, in one of three profiles: variables, units and defaults of Kiln's own,
 * of SYCL's runtimes, or of oneDNN. The library reads no environment by itself, but for the one
 * variable of kiln/constant.h. A caller that wants it read calls this, and passes on what it finds:
 *
 *     kiln_config_from_profile(KILN_PROFILE_KILN, NULL, NULL, &config);
 *
 *     kiln_store_params on_disk = {.struct_size = sizeof on_disk};
 *     kiln_config_get_store(config, &on_disk);
 *     if (config->location) {
 *         kiln_store_open(config->location, &on_disk, &store, &error);
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

/* What was read. Made and freed by the library: later versions append fields. Immutable; any thread
 * may read it. Texts live as long as the configuration. */
typedef struct kiln_config {
    /* What is kept on disk. */
    const char *location; /* what kiln_store_open is to be given; NULL: nothing is kept on disk */
    const char *dir;      /* the location, also if nothing is kept; NULL: none can be told. An
                             absolute path, or its URL if a path would mean something else, or
                             KILN_PERSISTENT_DEFAULT_DIR. KILN_DIR may be a URL or a chain of places:
                             then this is what it says */
    uint64_t max_bytes;   /* what may be kept there; 0: nothing; KILN_UNLIMITED */
    /* How large a device image must be, and may be, to be kept on disk: 0 and KILN_UNLIMITED unless
     * SYCL_CACHE_MIN_DEVICE_IMAGE_SIZE and SYCL_CACHE_MAX_DEVICE_IMAGE_SIZE say otherwise. */
    uint64_t min_image_bytes, max_image_bytes;

    /* The rest. Switches are 0 or 1. */
    int readonly;  /* KILN_READONLY */
    int disabled;  /* KILN_DISABLE */
    int helper;    /* KILN_HELPER: 1 unless it says 0: then no process is started to capture what is
                      dear to capture, and requests wait for `kiln capture` */
    int last_miss; /* KILN_LAST_MISS: the store keeps the last key that it did not have, for `kiln
                      why` (KILN_STORE_NOTE_MISSES) */
    const char *tool;  /* KILN_TOOL: path of the `kiln` tool, as `kiln run` passes it; NULL: none */
    const char *trace; /* KILN_TRACE: a file, "-" for stderr; NULL: none. "-" if only
                          SYCL_CACHE_TRACE is set */
    uint32_t trace_events; /* SYCL_CACHE_TRACE: KILN_TRACE_… added up; 0 in the other profiles */
    const char *stats; /* KILN_STATS: a file to which each process adds its counters; NULL: none */
    /* KILN_KEY_FILE: the key file of the store; NULL: none. As it was given: a store whose key file
     * can't be used is not opened, so that a wrong value, "" too, believes nothing. */
    const char *key_file;
    /* KILN_KEY_ENV: further variables that decide what a build yields; a trailing '*' stands for
     * any ending. NULL-ended. */
    const char *const *key_variables;
    const char *const
        *complaints; /* a line for each wrong value: "KILN_MAX_SIZE=3X: …". NULL-ended */
} kiln_config;

/* Events that kiln_config.trace_events asks for. */
enum {
    KILN_TRACE_DISK = 1u,
    KILN_TRACE_MEMORY = 2u,
    KILN_TRACE_COMPILER = 4u, /* the caches of sources that a program compiles at run time */
    KILN_TRACE_ALL = 7u
};

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

/* Fills the parameters that go with the location: size, layout, policy, age, flags and key file.
 * The log is the caller's to add.
 *
 * @ret_params  filled as far as its struct_size says; texts in it live as long as @config
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_config_get_store(const kiln_config *config,
                                           kiln_store_params *ret_params);

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

/* Reads a size: digits and one optional suffix K M G T (of 1024), upper or lower case.
 * Returns KILN_OK; KILN_E_PARSE: anything else, too large a number included. */
KILN_API kiln_status kiln_size_parse(const char *text, uint64_t *ret_bytes);

#ifdef __cplusplus
}
#endif

#endif
