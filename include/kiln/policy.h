/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes first from a cache in memory (cache.h) or a store (store.h) that is full. Each says how
 * it applies a policy.
 */
#ifndef KILN_POLICY_H
#define KILN_POLICY_H

#include <stdint.h>

#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What goes first. */
typedef enum kiln_policy {
    KILN_POLICY_COST = 0,     /* what is cheap to build for its size and was not used for long */
    KILN_POLICY_LRU = 1,      /* what was used least recently */
    KILN_POLICY_FIFO = 2,     /* what came first */
    KILN_POLICY_NO_EVICT = 3, /* nothing: what is new is not taken */
    KILN_POLICY_AUTO = 4      /* the cache chooses; no store does */
} kiln_policy;

/* "cost", "lru", "fifo", "no_evict", "auto"; NULL for a value that is none. Static text. */
KILN_API const char *kiln_policy_name(uint32_t policy);

/* Reads a policy's name, in lower or upper case. Returns KILN_OK; KILN_E_PARSE, for NULL too. */
KILN_API kiln_status kiln_policy_parse(const char *text, uint32_t *ret_policy);

#ifdef __cplusplus
}
#endif

#endif
