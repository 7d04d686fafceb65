/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads settings from the environment. There are three profiles, with the variables, units and
 * defaults of Kiln itself, of SYCL's runtimes, or of oneDNN. The library reads no other settings
 * from the environment, except the variable of kiln/constant.h. A caller that wants these settings
 * reads them with this header, and passes the result to other calls:
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

/* The configuration that was read. The library makes and frees it, so later versions may append
 * fields. It is immutable, and any thread may read it. Its texts are valid as long as the
 * configuration is. */
typedef struct kiln_config {
    /* What is kept on disk. */
    const char *location; /* for kiln_store_open; NULL: nothing is kept on disk */
    const char *dir; /* the location, even if nothing is kept there; NULL: it is unknown. It is an
                        absolute path or KILN_PERSISTENT_DEFAULT_DIR. If the path contains a '|',
                        dir is its URL, because a '|' would make a chain. If KILN_DIR is a URL or a
                        chain, dir is the value of KILN_DIR */
    uint64_t max_bytes; /* how much may be kept there; 0: nothing; or KILN_UNLIMITED */
    /* The smallest and largest device image that is kept on disk, in bytes. With KILN_PROFILE_SYCL:
     * SYCL_CACHE_MIN_DEVICE_IMAGE_SIZE, by default 0, and SYCL_CACHE_MAX_DEVICE_IMAGE_SIZE, by
     * default 1 GiB. In the other profiles: 0 and KILN_UNLIMITED. */
    uint64_t min_image_bytes, max_image_bytes;

    /* Other settings. Switches are 0 or 1. */
    int readonly;  /* KILN_READONLY */
    int disabled;  /* KILN_DISABLE */
    int helper;    /* KILN_HELPER; 1 by default. If 0, no process is started for expensive captures,
                      and capture requests wait for `kiln capture` */
    int last_miss; /* KILN_LAST_MISS: the store keeps the last key that it did not have, for `kiln
                      why` (KILN_STORE_NOTE_MISSES) */
    const char *tool; /* KILN_TOOL: the path of the `kiln` tool, as set by `kiln run`; NULL: none */
    const char *trace;     /* KILN_TRACE: a file, or "-" for stderr; NULL: none. If only
                              SYCL_CACHE_TRACE is set, it is "-" */
    uint32_t trace_events; /* SYCL_CACHE_TRACE: KILN_TRACE_… or-ed; 0 in the other profiles */
    const char *stats; /* KILN_STATS: a file to which each process adds its counters; NULL: none */
    /* KILN_SIGNING_KEY_FILE, or its older name KILN_KEY_FILE: the file of the store's signing key;
     * NULL: none. The value is kept as given, even if it is empty. A store whose key file can't be
     * used is not opened. So a wrong value never makes a store accept unsigned entries. */
    const char *key_file;
    /* KILN_KEY_ENV: names of further variables that decide what a build yields, terminated by NULL.
     * A trailing '*' matches any ending. */
    const char *const *key_variables;
    /* A line for each wrong value, such as "KILN_MAX_SIZE=3X: …"; terminated by NULL. */
    const char *const *warnings;
    /* The credentials in these variables: KILN_HTTP_TOKEN_FILE, REDISCLI_AUTH,
     * KILN_SECRET_KEY_FILE, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
     * AWS_SHARED_CREDENTIALS_FILE, and AWS_REGION or AWS_DEFAULT_REGION. The files of trusted keys
     * are KILN_ROOTS_TRUSTED_KEYS, and kiln/trusted-keys in the folder XDG_CONFIG_HOME or, if that
     * is not set, in .config in the folder HOME. Never NULL. */
    const kiln_store_credentials *credentials;
    int journal; /* KILN_JOURNAL; 1 by default: the store keeps a journal (KILN_STORE_JOURNAL) */
    const char *record; /* KILN_RECORD: a file to which each process appends the records that it
                           also appends to the journal; NULL: none */
    uint64_t included_max_bytes; /* KILN_INCLUDED_MAX_SIZE; 128 MiB by default: how much disk space
                                    the contents of included files, and of inputs of nvJitLink, may
                                    occupy (kiln_included_open); 0: they are not kept */
    int replay; /* KILN_REPLAY; 1 by default: after an upgrade of a driver, the helper repeats the
                   builds of the older one */
} kiln_config;

/* The path of root's file of trusted keys. */
#define KILN_ROOTS_TRUSTED_KEYS "/etc/kiln/trusted-keys"

/* The events in kiln_config.trace_events. */
enum {
    KILN_TRACE_DISK = 1u,
    KILN_TRACE_MEMORY = 2u,
    KILN_TRACE_COMPILER = 4u, /* caches of sources that a program compiles at run time */
    KILN_TRACE_ALL = 7u
};

/* Returns the value of a variable, or NULL if it isn't set. The value must stay valid until the
 * call that made the look-up returns. */
typedef const char *(*kiln_lookup_fn)(void *user, const char *name);

/* Selects variables, units and defaults. All profiles also read KILN_READONLY, KILN_DISABLE,
 * KILN_HELPER, KILN_TOOL, KILN_TRACE, KILN_STATS, KILN_SIGNING_KEY_FILE, KILN_KEY_ENV,
 * KILN_LAST_MISS, KILN_JOURNAL, KILN_RECORD, KILN_INCLUDED_MAX_SIZE, KILN_REPLAY, and the variables
 * of kiln_config.credentials. */
typedef enum kiln_profile {
    KILN_PROFILE_KILN = 0, /* KILN_DIR, KILN_MAX_SIZE */
    /* SYCL_CACHE_…, SYCL_IN_MEM_CACHE_EVICTION_THRESHOLD, SYCL_PROGRAM_…_OPTIONS */
    KILN_PROFILE_SYCL = 1,
    /* ONEDNN_PERSISTENT_CACHE_…, ONEDNN_PRIMITIVE_CACHE_CAPACITY or its older name
     * DNNL_PRIMITIVE_CACHE_CAPACITY */
    KILN_PROFILE_ONEDNN = 2
} kiln_profile;

/* Returns "kiln", "sycl" or "onednn"; NULL for an unknown value. The text is static. Threads: any.
 * Blocks: never. */
KILN_API const char *kiln_profile_name(uint32_t profile);

/* Reads a profile's name.
 *
 * @text         may be NULL, which is no profile's name
 * @ret_profile  [out] a kiln_profile
 * Returns KILN_OK; KILN_E_PARSE: no such profile; KILN_E_INVALID: @ret_profile is NULL. Threads:
 * any. Blocks: never. */
KILN_API kiln_status kiln_profile_parse(const char *text, uint32_t *ret_profile);

/* Reads the configuration. If a value is wrong, the default is used, and a line of
 * kiln_config.warnings names the value. An empty variable counts as unset, except for
 * KILN_SIGNING_KEY_FILE and KILN_KEY_FILE.
 *
 * @profile     a kiln_profile
 * @lookup      called for each variable; NULL: the environment of the process, as secure_getenv
 *              returns it
 * @user        passed to @lookup; may be NULL
 * @ret_config  [out] to be freed with kiln_config_free
 * Returns KILN_OK; KILN_E_INVALID: NULL, or an unknown profile; KILN_E_NO_MEMORY. Threads: any,
 * while no thread changes the environment. Blocks: never. */
KILN_API kiln_status kiln_config_from_profile(uint32_t profile, kiln_lookup_fn lookup, void *user,
                                              kiln_config **ret_config);

/* Does the same as kiln_config_from_profile for KILN_PROFILE_KILN. */
KILN_API kiln_status kiln_config_from_env(kiln_lookup_fn lookup, void *user,
                                          kiln_config **ret_config);

/* Frees a configuration and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_config_free(kiln_config **config);

/* Fills the parameters of the store at kiln_config.location: size, layout, policy, age, flags, key
 * file and credentials. The caller sets the log.
 *
 * @ret_params  [in, out] the caller sets its struct_size; the call fills the fields that this size
 *              covers; the texts are valid as long as @config is
 * Returns KILN_OK; KILN_E_INVALID: NULL. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_config_get_store(const kiln_config *config,
                                           kiln_store_params *ret_params);

/* Fills the parameters of kiln_cache_new: bounds, policy, and whether failures are kept or the
 * cache is disabled. The caller sets the destroy function.
 *
 * @ret_params  [in, out] the caller sets its struct_size; the call fills the fields that this size
 *              covers
 * Returns KILN_OK; KILN_E_INVALID: NULL. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_config_get_memory(const kiln_config *config,
                                            kiln_cache_params *ret_params);

/* Fills the parameters of a program context that come from the environment: bounds, policy and
 * flags of the programs map, image sizes, replaced and appended options and, with
 * KILN_PROFILE_SYCL, the rules. All other fields stay as they are.
 *
 * @params  [in, out] the caller sets its struct_size; the texts are valid as long as @config is
 * Returns KILN_OK; KILN_E_INVALID: NULL. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_config_get_programs(const kiln_config *config,
                                              kiln_program_context_params *params);

/* Reads a size: digits, and at most one suffix, in upper or lower case: K, M, G, T, KiB, MiB, GiB
 * or TiB (powers of 1024), or KB, MB, GB or TB (powers of 1000).
 *
 * @text       must not be NULL
 * @ret_bytes  [out]
 * Returns KILN_OK; KILN_E_PARSE: anything else, including too large a number. Threads: any. Blocks:
 * never. */
KILN_API kiln_status kiln_size_parse(const char *text, uint64_t *ret_bytes);

#ifdef __cplusplus
}
#endif

#endif
