/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration while it is read, and the functions with which profiles read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/config.h>

#include "base/text.h"

/* A configuration while it is read, and as it is returned: shown points to the other members. */
typedef struct kilni_config {
    kiln_config shown; /* first, so that it has the configuration's address */

    /* Common to all profiles. */
    bool readonly, disabled, helper, last_miss;
    char *trace, *stats, *tool, *key_file; /* NULL if not set */
    /* Strings one after another, each with its closing zero. */
    kilni_text key_variables, warnings;

    /* Of the profile. */
    char *dir;                /* the location of the store; NULL: none */
    bool is_persistent;       /* whether anything is kept on disk */
    kiln_store_params store;  /* of the store; common settings are filled in last */
    kiln_cache_params memory; /* without destroy and user */
    uint64_t min_image_bytes, max_image_bytes;
    bool keeps_images_only;                 /* KILN_RULES_IMAGES */
    char *compile_options, *link_options;   /* replace an image's own; NULL: those stay */
    char *appended_compile, *appended_link; /* follow them; NULL: none */
    uint32_t trace_events;                  /* KILN_TRACE_… */
} kilni_config;

/* Reads variables into a configuration. After the first failure, which is lack of memory, nothing
 * more is read. */
typedef struct kilni_config_reader {
    kiln_lookup_fn lookup;
    void *user;
    kilni_config *config;
    kiln_status status;
} kilni_config_reader;

/* Returns the value of a variable; NULL if it is unset or empty, which means the same for all
 * variables of Kiln except KILN_SIGNING_KEY_FILE. */
const char *kilni_config_value(const kilni_config_reader *reader, const char *name);

/* Adds the line "NAME=value: expected; used". */
void kilni_config_warn(kilni_config_reader *reader, const char *name, const char *value,
                       const char *expected, const char *used);

/* Each leaves its result, which holds the default, if the variable is unset, or if its value is
 * wrong, which adds a warning. @used describes the default. */
void kilni_config_read_switch(kilni_config_reader *reader, const char *name, bool *switched);
void kilni_config_read_size(kilni_config_reader *reader, const char *name, const char *used,
                            uint64_t *bytes);
/* Reads a whole number without a suffix. @noun is what it counts, such as "days". */
void kilni_config_read_number(kilni_config_reader *reader, const char *name, const char *noun,
                              uint64_t max, uint64_t *number);
/* Reads any text. */
void kilni_config_read_text(kilni_config_reader *reader, const char *name, char **text);

typedef struct kilni_dir_candidate {
    const char *variable;
    const char *below;   /* appended to the value */
    bool takes_location; /* the value may also be a URL, or a chain of several locations */
} kilni_dir_candidate;

/* Takes the first candidate that is set and absolute; warns about those before it.
 *
 * @fallback  if there is none; NULL: nothing is stored on disk then */
void kilni_config_read_dir(kilni_config_reader *reader, const kilni_dir_candidate *candidates,
                           size_t count, const char *fallback);

/* ---- profiles: each sets its defaults, and reads its variables ---- */

void kilni_config_read_common(kilni_config_reader *reader);
void kilni_config_read_kiln(kilni_config_reader *reader);
void kilni_config_read_sycl(kilni_config_reader *reader);
void kilni_config_read_onednn(kilni_config_reader *reader);
