/* SPDX-License-Identifier: Apache-2.0
 *
 * What the KILN_… variables say. The library reads no environment by itself: who wants it read
 * calls this, and passes on what it finds.
 */
#ifndef KILN_CONFIG_H
#define KILN_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable. Any thread. */
typedef struct kiln_config kiln_config;

/* Looks a variable up; NULL where it isn't set. */
typedef const char *(*kiln_lookup_fn)(void *user, const char *name);

/* Reads the configuration. A wrong value is kept as a complaint that names it, and the default is
 * used.
 *
 * @lookup      NULL: the process's environment, as secure_getenv sees it
 * @ret_config  [out] to be given back with kiln_config_free
 * Returns KILN_OK; KILN_E_NO_MEMORY. Threads: any that may read the environment. Blocks: never. */
KILN_API kiln_status kiln_config_from_env(kiln_lookup_fn lookup, void *user,
                                          kiln_config **ret_config);

KILN_API void kiln_config_free(kiln_config **config);

/* KILN_DIR, else $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln; NULL: memory only. Absolute. */
KILN_API const char *kiln_config_dir(const kiln_config *config);

/* KILN_MAX_SIZE: bytes, with a suffix K M G T (of 1024); default 2 GiB; 0: nothing is stored. */
KILN_API uint64_t kiln_config_max_bytes(const kiln_config *config);

/* KILN_READONLY, KILN_DISABLE: 0 or 1. */
KILN_API int kiln_config_readonly(const kiln_config *config);
KILN_API int kiln_config_disabled(const kiln_config *config);

/* KILN_HELPER: 1 unless it says 0: then no process is started to capture what is dear to capture,
 * and requests wait for `kiln capture`. */
KILN_API int kiln_config_helper(const kiln_config *config);

/* KILN_TOOL: the `kiln` tool's path, as `kiln run` passes it to the programs it runs; NULL: none.
 */
KILN_API const char *kiln_config_tool(const kiln_config *config);

/* KILN_TRACE: a file, "-" for stderr; NULL: none. */
KILN_API const char *kiln_config_trace(const kiln_config *config);

/* KILN_STATS: a file to which each process adds its counters (kiln run --summary); NULL: none. */
KILN_API const char *kiln_config_stats(const kiln_config *config);

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
