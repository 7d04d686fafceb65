/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe.h"

#include <stdlib.h>
#include <string.h>

#include "../entry/architecture.h"
#include "../text/memory.h"

/* ---- parts ---- */

size_t recipe_find(const kiln_key *key, const char *name, size_t from, kiln_key_part *ret_part)
{
    for (size_t i = from; kiln_key_part_at(key, i, ret_part) == KILN_OK; i++) {
        if (strcmp(ret_part->name, name) == 0) {
            return i + 1;
        }
    }
    return 0;
}

static char *text_of_part(const kiln_key_part *part)
{
    char *text = must(malloc((size_t)part->size + 1));
    if (part->size > 0) {
        memcpy(text, part->bytes, (size_t)part->size);
    }
    text[part->size] = '\0';
    return text;
}

char *recipe_text(const kiln_key *key, const char *name)
{
    kiln_key_part part;
    return recipe_find(key, name, 0, &part) == 0 || part.bytes == NULL ? NULL : text_of_part(&part);
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool are_equal(const kiln_key_part *a, const kiln_key_part *b)
{
    return a->size == b->size && a->bytes != NULL && b->bytes != NULL &&
           memcmp(a->bytes, b->bytes, (size_t)a->size) == 0;
}

bool recipe_is_input(const char *part_name)
{
    static const char *const identities[] = {
        "platform.", "device.", "driver.",           "libm.",
        "nvrtc.",    "hiprtc.", "nvjitlink.version", "nvjitlink.library"};
    for (size_t i = 0; i < sizeof identities / sizeof identities[0]; i++) {
        if (begins_with(part_name, identities[i])) {
            return false;
        }
    }
    return strcmp(part_name, "cpu") != 0;
}

/* ---- what is refused ---- */

/* Variables and options with which a compiler loads code or commands that the entry does not
 * contain. */
static const char *const refused_variables[] = {
    "LD_",     "KILN_",      "OPENCL_LAYERS",     "GLIBC_TUNABLES",       "OCLBACKEND_PLUGINS",
    "VOLCANO", "CLANG_CONF", "CCC_OVERRIDE_OPTI", "CL_CONFIG_REPLACE_IR", "COMPILER_PATH",
};
static const char *const refused_options[] = {"plugin", "-load", "-Xclang", "-mllvm", "-wrapper"};

static char *reason_against_options(const char *options)
{
    for (size_t i = 0; i < sizeof refused_options / sizeof refused_options[0]; i++) {
        if (strcasestr(options, refused_options[i]) != NULL) {
            return text_of("an option may load code: %s", refused_options[i]);
        }
    }
    return NULL;
}

static char *reason_against_variable(const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof refused_variables / sizeof refused_variables[0]; i++) {
        if (begins_with(name, refused_variables[i])) {
            return text_of("it was built with %s", name);
        }
    }
    return strstr(name, "OPTIONS") != NULL || strstr(name, "FLAGS") != NULL
               ? reason_against_options(value)
               : NULL;
}

static char *reason_against_part(const kiln_key_part *part)
{
    if (part->bytes == NULL) {
        return text_of("sources stripped");
    }
    if (strcmp(part->name, "cpu.floating_point") == 0) {
        return text_of("it was built in a floating-point mode that is not the default");
    }
    if (begins_with(part->name, "env.file.") || begins_with(part->name, "working.")) {
        return text_of("it was built with a file that configures the compiler: %s", part->name);
    }
    owned char *value = text_of_part(part);
    if (begins_with(part->name, "env.")) {
        return reason_against_variable(part->name + strlen("env."), value);
    }
    return strcmp(part->name, "option") == 0 || strcmp(part->name, "options") == 0
               ? reason_against_options(value)
               : NULL;
}

static char *reason_against_inputs(const kiln_key *key)
{
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        char *why = recipe_is_input(part.name) || strcmp(part.name, "platform.name") == 0 ||
                            strcmp(part.name, "device.name") == 0
                        ? reason_against_part(&part)
                        : NULL;
        if (why != NULL) {
            return why;
        }
    }
    return NULL;
}

/* ---- kinds of builds ---- */

static bool has(const kiln_key *key, const char *name)
{
    kiln_key_part part;
    return recipe_find(key, name, 0, &part) != 0;
}

char *recipe_check_compiled(const kiln_key *compiled)
{
    char *why = reason_against_inputs(compiled);
    return why != NULL || has(compiled, "source") || has(compiled, "il")
               ? why
               : text_of("an input of the link is unknown");
}

static char *check_link(const kiln_key *key)
{
    kiln_key_part part;
    char *why = NULL;
    for (size_t i = 0; why == NULL && (i = recipe_find(key, "input", i, &part)) != 0;) {
        kiln_key *compiled = NULL;
        why = kiln_key_decode(part.bytes, (size_t)part.size, &compiled) == KILN_OK
                  ? recipe_check_compiled(compiled)
                  : text_of("an input of the link is unknown");
        kiln_key_release(&compiled);
    }
    return why;
}

static char *reason_for_others(const kiln_key *key)
{
    owned char *framework = recipe_text(key, "door");
    return framework == NULL
               ? text_of("it was not made by OpenCL, NVRTC, nvJitLink or HIPRTC")
               : text_of("only %s can build it again: the key has only digests of the sources",
                         framework);
}

static char *find_kind(recipe *of)
{
    owned char *step = recipe_text(of->key, "step");
    if (has(of->key, "nvrtc.version") && has(of->key, "source")) {
        of->kind = RECIPE_NVRTC;
    } else if (has(of->key, "hiprtc.version") && has(of->key, "source")) {
        of->kind = RECIPE_HIPRTC;
    } else if (has(of->key, "nvjitlink.version")) {
        of->kind = RECIPE_NVJITLINK;
    } else if (has(of->key, "platform.name") && step != NULL && strcmp(step, "link") == 0) {
        of->kind = RECIPE_OPENCL_LINK;
    } else if (has(of->key, "platform.name") && (has(of->key, "source") || has(of->key, "il"))) {
        of->kind = RECIPE_OPENCL;
    } else {
        return reason_for_others(of->key);
    }
    return NULL;
}

/* nvJitLink's entries for the step "accepted" belong to those of whole links. */
bool recipe_is_build(const kiln_entry *entry)
{
    const kiln_key *key = kiln_entry_key(entry);
    return kiln_entry_kind_of(entry) == KILN_ENTRY_PROGRAM ? !has(key, "nvjitlink.step")
                                                           : has(key, "door");
}

bool recipe_is_step(const kiln_key *link, const kiln_key *step)
{
    kiln_key_part of_link, of_step;
    size_t i = 0;
    while (kiln_key_part_at(step, i, &of_step) == KILN_OK &&
           strcmp(of_step.name, "nvjitlink.step") != 0) {
        if (kiln_key_part_at(link, i, &of_link) != KILN_OK ||
            strcmp(of_link.name, of_step.name) != 0 || !are_equal(&of_link, &of_step)) {
            return false;
        }
        i++;
    }
    return i > 0 && i + 1 == kiln_key_part_count(step);
}

char *recipe_read(const kiln_entry *entry, recipe *ret_recipe)
{
    recipe found = {.entry = entry, .key = kiln_entry_key(entry)};
    char *why = find_kind(&found);
    if (why == NULL) {
        why = reason_against_inputs(found.key);
    }
    if (why == NULL && found.kind == RECIPE_OPENCL_LINK) {
        why = check_link(found.key);
    }
    *ret_recipe = found;
    return why;
}

/* ---- comparing inputs ---- */

static bool are_equal_links(const kiln_key_part *a, const kiln_key_part *b)
{
    kiln_key *first = NULL, *second = NULL;
    const bool are_equal = kiln_key_decode(a->bytes, (size_t)a->size, &first) == KILN_OK &&
                           kiln_key_decode(b->bytes, (size_t)b->size, &second) == KILN_OK &&
                           recipe_has_same_inputs(first, second);
    kiln_key_release(&first);
    kiln_key_release(&second);
    return are_equal;
}

/* @is_value  the option before this one expects an architecture */
static bool are_equal_options(const kiln_key_part *a, const kiln_key_part *b, bool is_value)
{
    owned char *first = text_of_part(a), *second = text_of_part(b);
    size_t first_length = 0, second_length = 0;
    const size_t at = architecture_find(first, is_value, &first_length);
    return at > 0 && at == architecture_find(second, is_value, &second_length) &&
           strncmp(first, second, at) == 0;
}

static bool is_architecture_next(const kiln_key_part *option)
{
    owned char *text = text_of_part(option);
    return architecture_expects_value(text);
}

bool recipe_is_of_file(const kiln_key *key, size_t index)
{
    kiln_key_part part, next;
    return kiln_key_part_at(key, index, &part) == KILN_OK && strcmp(part.name, "input") == 0 &&
           kiln_key_part_at(key, index + 1, &next) == KILN_OK &&
           strcmp(next.name, "input.file") == 0;
}

/* What a compiler has read in files is a result, and not an input. */
static bool next_input(const kiln_key *key, size_t *index, kiln_key_part *ret_part)
{
    while (kiln_key_part_at(key, *index, ret_part) == KILN_OK) {
        const bool is_read = strcmp(ret_part->name, "read") == 0 || recipe_is_of_file(key, *index);
        ++*index;
        if (recipe_is_input(ret_part->name) && !is_read) {
            return true;
        }
    }
    return false;
}

bool recipe_has_same_inputs(const kiln_key *entry, const kiln_key *repeated)
{
    kiln_key_part first, second;
    size_t at_first = 0, at_second = 0;
    bool is_value = false;
    while (next_input(entry, &at_first, &first)) {
        if (!next_input(repeated, &at_second, &second) || strcmp(first.name, second.name) != 0) {
            return false;
        }
        const bool is_option = strcmp(first.name, "option") == 0;
        if (!are_equal(&first, &second) &&
            !(strcmp(first.name, "input") == 0 && are_equal_links(&first, &second)) &&
            !(is_option && are_equal_options(&first, &second, is_value))) {
            return false;
        }
        is_value = is_option && is_architecture_next(&first);
    }
    return !next_input(repeated, &at_second, &second);
}

/* ---- comparing math functions ---- */

/* Returns the length of a library's name, which is the first word of the part. */
static size_t name_length(const kiln_key_part *math)
{
    const char *blank = math->bytes == NULL ? NULL : memchr(math->bytes, ' ', (size_t)math->size);
    return blank == NULL ? 0 : (size_t)(blank - (const char *)math->bytes);
}

bool recipe_has_same_math(const kiln_key *entry, const kiln_key *repeated)
{
    kiln_key_part first, second;
    size_t at_first = 0, at_second = 0;
    while ((at_first = recipe_find(entry, "driver.math", at_first, &first)) != 0) {
        at_second = recipe_find(repeated, "driver.math", at_second, &second);
        const size_t length = name_length(&first);
        if (at_second == 0 || length == 0 || length != name_length(&second) ||
            memcmp(first.bytes, second.bytes, length) != 0) {
            return false;
        }
    }
    return recipe_find(repeated, "driver.math", at_second, &second) == 0;
}
