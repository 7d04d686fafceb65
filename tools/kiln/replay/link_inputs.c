/* SPDX-License-Identifier: Apache-2.0 */
#include "link_inputs.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <kiln/store_tools.h>

#include "../text/memory.h"
#include "recipe.h"

#define DIGEST_BYTES 32

static link_input *add(link_inputs *inputs, const kiln_key_part *kind)
{
    uint64_t number = 0;
    memcpy(&number, kind->bytes, sizeof number);
    inputs->items =
        array_grown(inputs->items, inputs->count, &inputs->capacity, sizeof *inputs->items);
    inputs->items[inputs->count] = (link_input){.kind = (int)number};
    return &inputs->items[inputs->count++];
}

/* Takes over what a part says about the last input, or begins the next one. Returns the input;
 * NULL: there is none yet. */
static link_input *take_part(link_inputs *inputs, const kiln_key_part *part)
{
    link_input *last = inputs->count == 0 ? NULL : &inputs->items[inputs->count - 1];
    if (strcmp(part->name, "input.kind") == 0 && part->size == sizeof(uint64_t)) {
        return add(inputs, part);
    }
    if (last != NULL && strcmp(part->name, "input.name") == 0) {
        last->name = text_of("%.*s", (int)part->size, (const char *)part->bytes);
    } else if (last != NULL && strcmp(part->name, "input.file") == 0) {
        last->path = text_of("%.*s", (int)part->size, (const char *)part->bytes);
    }
    return last;
}

static char *find_content(kiln_store *included, const unsigned char *digest, link_input *input)
{
    return included != NULL && kiln_included_get(included, digest, &input->content) == KILN_OK
               ? NULL
               : text_of("an input of the link was not kept: %s",
                         input->name == NULL ? "it has no name" : input->name);
}

char *link_inputs_read(const kiln_key *key, kiln_store *included, link_inputs *inputs)
{
    kiln_key_part part;
    char *why = NULL;
    for (size_t i = 0; why == NULL && kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        link_input *input = take_part(inputs, &part);
        if (input != NULL && strcmp(part.name, "input") == 0 && part.size == DIGEST_BYTES &&
            !recipe_is_of_file(key, i)) {
            why = find_content(included, part.bytes, input);
        }
    }
    bool are_known = inputs->count > 0;
    for (size_t i = 0; i < inputs->count; i++) {
        are_known &= inputs->items[i].content != NULL || inputs->items[i].path != NULL;
    }
    return why == NULL && !are_known ? text_of("an input of the link is unknown") : why;
}
