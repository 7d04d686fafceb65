/* SPDX-License-Identifier: Apache-2.0
 *
 * The policies that decide what a full cache in memory (cache.h) or a full store (store.h) evicts.
 * Those headers say how they apply a policy.
 */
#ifndef KILN_POLICY_H
#define KILN_POLICY_H

#include <stdint.h>

#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is evicted first. */
typedef enum kiln_policy {
    KILN_POLICY_COST = 0, /* what was cheap to build for its size and has not been used recently */
    KILN_POLICY_LRU = 1,  /* the least recently used */
    KILN_POLICY_FIFO = 2, /* the oldest */
    KILN_POLICY_NO_EVICT = 3, /* nothing: new objects or entries are not admitted */
    KILN_POLICY_AUTO = 4      /* the cache chooses; stores do not accept it */
} kiln_policy;

/* Returns "cost", "lru", "fifo", "no_evict" or "auto"; NULL for an unknown value. The text is
 * static. Threads: any. Blocks: never. */
KILN_API const char *kiln_policy_name(uint32_t policy);

/* Reads a policy's name, in lower or upper case.
 *
 * @ret_policy  [out] a kiln_policy
 * Returns KILN_OK; KILN_E_PARSE: not a policy, or NULL for either argument. Threads: any. Blocks:
 * never. */
KILN_API kiln_status kiln_policy_parse(const char *text, uint32_t *ret_policy);

#ifdef __cplusplus
}
#endif

#endif
