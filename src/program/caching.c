/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which programs are kept, and reports why the others are not.
 */
#include <stdio.h>
#include <string.h>

#include "base/sized_struct.h"
#include "memory/evict.h"
#include "program/obtain.h"
#include "store/store.h"

const char *kiln_uncached_text(uint32_t uncached)
{
    static const char *const texts[] = {
        [KILN_UNCACHED_NOT] = "kept",
        [KILN_UNCACHED_SOURCE] = "built from source",
        [KILN_UNCACHED_LINKED] = "linked from several programs",
        [KILN_UNCACHED_INTEROP] = "a handle of the user's own",
        [KILN_UNCACHED_DEVICE] = "the inputs of the device's builds are unknown",
        [KILN_UNCACHED_INPUTS] = "the inputs of its build are unknown",
        [KILN_UNCACHED_OFF] = "disabled, or no store",
        [KILN_UNCACHED_SIZE] = "too small or too large for the disk",
        [KILN_UNCACHED_CAPTURE] = "the device gives no binaries, or only at a high cost",
    };
    return uncached < sizeof texts / sizeof texts[0] ? texts[uncached] : NULL;
}

uint32_t kilni_caching_of_desc(const kiln_program_desc *desc)
{
    if (desc->context->rules == KILN_RULES_IMAGES) {
        if (desc->linked_count > 0) {
            return KILN_UNCACHED_LINKED;
        }
        if (desc->origin == KILN_ORIGIN_SOURCE) {
            return KILN_UNCACHED_SOURCE;
        }
    }
    return desc->uncached;
}

bool kilni_caching_has_storable_size(const kiln_program_desc *desc)
{
    return desc->code_bytes >= desc->context->min_stored_bytes &&
           desc->code_bytes <= desc->context->max_stored_bytes;
}

static uint32_t caching_in_memory(const kiln_program_desc *desc)
{
    const uint32_t by_rule = kilni_caching_of_desc(desc);
    if (by_rule != KILN_UNCACHED_NOT) {
        return by_rule;
    }
    return kilni_cache_is_off(desc->context->programs) ? KILN_UNCACHED_OFF : KILN_UNCACHED_NOT;
}

static uint32_t caching_on_disk(const kiln_program_desc *desc)
{
    const uint32_t by_rule = kilni_caching_of_desc(desc);
    if (by_rule != KILN_UNCACHED_NOT) {
        return by_rule;
    }
    kilni_held_store *held = kilni_program_hold_store(desc->context, true);
    const bool is_writable = kilni_store_capabilities(held->store) & KILNI_STORE_WRITABLE;
    kilni_program_release_store(desc->context, held);
    if (!is_writable) {
        return KILN_UNCACHED_OFF;
    }
    if (!kilni_caching_has_storable_size(desc)) {
        return KILN_UNCACHED_SIZE;
    }
    return desc->ops->capture_cost == KILN_CAPTURE_CHEAP ? KILN_UNCACHED_NOT
                                                         : KILN_UNCACHED_CAPTURE;
}

static kiln_status report(uint32_t memory, uint32_t store, const char *detail,
                          kiln_program_caching *ret_caching)
{
    kiln_program_caching caching = {
        .struct_size = sizeof caching, .memory = memory, .store = store};
    const uint32_t first = memory != KILN_UNCACHED_NOT ? memory : store;
    if (first != KILN_UNCACHED_NOT) {
        snprintf(caching.text, sizeof caching.text, "%s%s%s", kiln_uncached_text(first),
                 detail && detail[0] ? ": " : "", detail ? detail : "");
    }
    return kilni_sized_struct_copy_out(ret_caching, &caching, sizeof caching) ? KILN_OK
                                                                              : KILN_E_INVALID;
}

kiln_status kiln_program_desc_get_caching(const kiln_program_desc *desc,
                                          kiln_program_caching *ret_caching)
{
    if (!desc || !ret_caching) {
        return KILN_E_INVALID;
    }
    const uint32_t memory = caching_in_memory(desc);
    const char *detail = memory == desc->uncached ? desc->uncached_text : NULL;
    return report(memory, caching_on_disk(desc), detail, ret_caching);
}

kiln_status kiln_program_get_caching(const kiln_program *program, kiln_program_caching *ret_caching)
{
    if (!program || !ret_caching) {
        return KILN_E_INVALID;
    }
    const kiln_program_desc *desc = kilni_program_live(program)->desc;
    return desc ? kiln_program_desc_get_caching(desc, ret_caching)
                : report(KILN_UNCACHED_INTEROP, KILN_UNCACHED_INTEROP, NULL, ret_caching);
}
