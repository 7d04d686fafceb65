/* SPDX-License-Identifier: Apache-2.0
 *
 * What an entry says about its build: which compiler made it, and which inputs the program passed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/entry.h>

typedef enum recipe_kind {
    RECIPE_OPENCL,
    RECIPE_OPENCL_LINK,
    RECIPE_NVRTC,
    RECIPE_HIPRTC,
    RECIPE_NVJITLINK
} recipe_kind;

typedef struct recipe {
    recipe_kind kind;
    const kiln_entry *entry; /* borrowed */
    const kiln_key *key;     /* of the entry */
} recipe;

/* Returns whether an entry is the result of a build, of whichever compiler or framework. */
bool recipe_is_build(const kiln_entry *entry);

/* Returns whether an entry belongs to the one of a link: it shows that nvJitLink accepts the first
 * inputs of that link. */
bool recipe_is_step(const kiln_key *link, const kiln_key *step);

/* Reads what an entry was built from. Returns NULL if the build can be repeated; otherwise the
 * reason why it can't, which the caller frees. */
char *recipe_read(const kiln_entry *entry, recipe *ret_recipe);

/* Returns why an input of a link can't be compiled again, as recipe_read does.
 *
 * @compiled  the key of the compiled object */
char *recipe_check_compiled(const kiln_key *compiled);

/* Finds the first part of that name at @from or later. Returns its index + 1; 0: there is none. */
size_t recipe_find(const kiln_key *key, const char *name, size_t from, kiln_key_part *ret_part);

/* Returns a part as a text, which the caller frees; NULL: there is no such part. */
char *recipe_text(const kiln_key *key, const char *name);

/* Returns whether a part says what a program passed to the compiler. The other parts identify the
 * compiler and the device. */
bool recipe_is_input(const char *part_name);

/* Returns whether a part is the digest of a file that nvJitLink reads, and not of an input that the
 * program passed. */
bool recipe_is_of_file(const kiln_key *key, size_t index);

/* Returns whether a key of a repeated build has the inputs of the entry's key. The architectures
 * in the options of NVRTC and HIPRTC are not compared. */
bool recipe_has_same_inputs(const kiln_key *entry, const kiln_key *repeated);

/* Returns whether both builds fold constants with the math functions of libraries of the same
 * names. Otherwise the repeated build is not the one that the program itself would do, because the
 * program brings a math library of its own. */
bool recipe_has_same_math(const kiln_key *entry, const kiln_key *repeated);
