/* SPDX-License-Identifier: Apache-2.0 */
#include "constant/key.h"

#include <stdatomic.h>
#include <string.h>

#include <kiln/constant_backend.h>

#include "base/bytes.h"
#include "base/sized_struct.h"

enum { CONTEXT, BACKEND, KEY, GENERATION, PART_COUNT };

static const char *const part_names[PART_COUNT] = {"context", "backend", "key", "generation"};

uint64_t kiln_constant_unique_number(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static kiln_status add_parts(kiln_key_builder *builder, const kiln_constant_key_params *params)
{
    kiln_status status = kiln_key_builder_add_number(builder, part_names[CONTEXT], params->context);
    if (status == KILN_OK) {
        status = kiln_key_builder_add_number(builder, part_names[BACKEND], params->backend);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add(builder, part_names[KEY], params->key, params->key_size);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add_number(builder, part_names[GENERATION], params->generation);
    }
    return status;
}

kiln_status kiln_constant_key_new(const kiln_constant_key_params *params, kiln_key **ret_key)
{
    kiln_constant_key_params known;
    if (!params || !ret_key || kilni_sized_struct_copy(params, &known, sizeof known) != KILN_OK) {
        return KILN_E_INVALID;
    }
    kiln_key_builder *builder;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status != KILN_OK) {
        return status;
    }
    status = add_parts(builder, &known);
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

bool kilni_is_constant_key(const kiln_key *key)
{
    bool is_one = kiln_key_part_count(key) == PART_COUNT;
    for (size_t i = 0; is_one && i < PART_COUNT; i++) {
        kiln_key_part part;
        kiln_key_part_at(key, i, &part);
        is_one = !part.digest && strcmp(part.name, part_names[i]) == 0 &&
                 (i == KEY || part.size == sizeof(uint64_t));
    }
    return is_one;
}

uint64_t kilni_constant_key_context(const kiln_key *key)
{
    kiln_key_part part;
    kiln_key_part_at(key, CONTEXT, &part);
    kilni_byte_reader reader = {.at = part.bytes, .left = (size_t)part.size};
    return kilni_read_u64(&reader);
}
