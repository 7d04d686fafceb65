/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/constants.h"

#include <stdlib.h>
#include <string.h>

static void *copy_of(const void *value, size_t size)
{
    void *copy = malloc(size + 1);
    if (copy && size > 0) {
        memcpy(copy, value, size);
    }
    return copy;
}

/* Returns the index of the constant with this id, or the index at which it must be inserted. */
static size_t place_of(const kilni_opencl_constants *list, cl_uint id)
{
    size_t place = 0;
    while (place < list->count && list->items[place].id < id) {
        place++;
    }
    return place;
}

static kiln_status insert(kilni_opencl_constants *list, size_t place, cl_uint id)
{
    kilni_opencl_constant *items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items) {
        return KILN_E_NO_MEMORY;
    }
    memmove(&items[place + 1], &items[place], (list->count - place) * sizeof *items);
    items[place] = (kilni_opencl_constant){.id = id};
    list->items = items;
    list->count++;
    return KILN_OK;
}

kiln_status kilni_opencl_constants_set(kilni_opencl_constants *list, cl_uint id, size_t size,
                                       const void *value)
{
    void *copy = copy_of(value, size);
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    const size_t place = place_of(list, id);
    const int is_new = place == list->count || list->items[place].id != id;
    if (is_new && insert(list, place, id) != KILN_OK) {
        free(copy);
        return KILN_E_NO_MEMORY;
    }
    kilni_opencl_constant *set = &list->items[place];
    free(set->value);
    set->size = size;
    set->value = copy;
    return KILN_OK;
}

kiln_status kilni_opencl_constants_copy(const kilni_opencl_constants *list,
                                        kilni_opencl_constants *ret_copy)
{
    kilni_opencl_constants copy = {0};
    for (size_t i = 0; i < list->count; i++) {
        const kilni_opencl_constant *set = &list->items[i];
        const kiln_status status =
            kilni_opencl_constants_set(&copy, set->id, set->size, set->value);
        if (status != KILN_OK) {
            kilni_opencl_constants_done(&copy);
            return status;
        }
    }
    *ret_copy = copy;
    return KILN_OK;
}

kiln_status kilni_opencl_constants_add_to_key(const kilni_opencl_constants *list,
                                              kiln_key_builder *key)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < list->count; i++) {
        const kilni_opencl_constant *set = &list->items[i];
        kiln_key_builder_add_number(key, "constant", set->id);
        status = kiln_key_builder_add(key, "constant.value", set->value, set->size);
    }
    return status;
}

void kilni_opencl_constants_done(kilni_opencl_constants *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].value);
    }
    free(list->items);
    *list = (kilni_opencl_constants){0};
}
