/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration while it is read, and the readers of which its profiles are made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/config.h>

#include "base/text.h"

/* While it is read, and as it is handed out: shown points into the rest. */
typedef struct kilni_config {
    kiln_config shown; /* first, so that its address is the configuration's */

    /* Common. */
    bool readonly, disabled, helper, last_miss;
    char *trace, *stats, *tool, *key_file; /* NULL where unset */
    /* Strings one after another, each with its closing zero. */
    kilni_text key_variables, warnings;

    /* The profile's. */
    char *dir;                /* what a store is opened by; NULL: none */
    bool is_persistent;       /* whether anything is to be kept on disk */
    kiln_store_params store;  /* how; what is common is filled in last */
    kiln_cache_params memory; /* without destroy and user */
    uint64_t min_image_bytes, max_image_bytes;
    bool keeps_images_only;                 /* KILN_RULES_IMAGES */
    char *compile_options, *link_options;   /* in place of an image's own; NULL: those stay */
    char *appended_compile, *appended_link; /* behind them; NULL: none */
    uint32_t trace_events;                  /* KILN_TRACE_… */
} kilni_config;

/* Reads variables into a configuration. After the first failure, which is lack of memory, nothing
 * is read any more. */
typedef struct kilni_config_reader {
    kiln_lookup_fn lookup;
    void *user;
    kilni_config *config;
    kiln_status status;
} kilni_config_reader;

/* A variable's value; NULL where it is unset or empty, which means the same for all of ours but
 * KILN_KEY_FILE. */
const char *kilni_config_value(const kilni_config_reader *reader, const char *name);

/* Adds the line "NAME=value: expected; used". */
void kilni_config_warn(kilni_config_reader *reader, const char *name, const char *value,
                           const char *expected, const char *used);

/* Each leaves what it is to set, the default, where the variable is unset, and where its value is
 * wrong, which it complains of. @used says what the default is. */
void kilni_config_read_switch(kilni_config_reader *reader, const char *name, bool *switched);
void kilni_config_read_size(kilni_config_reader *reader, const char *name, const char *used,
                            uint64_t *bytes);
/* A whole number without a suffix. @noun  what it counts: "days" */
void kilni_config_read_number(kilni_config_reader *reader, const char *name, const char *noun,
                              uint64_t max, uint64_t *number);
/* Any text. */
void kilni_config_read_text(kilni_config_reader *reader, const char *name, char **text);

typedef struct kilni_dir_candidate {
    const char *variable;
    const char *below;   /* appended to its value */
    bool takes_location; /* it may be a URL too, or a chain of several places */
} kilni_dir_candidate;

/* Takes the first candidate that is set and absolute; complains of those before it.
 *
 * @fallback  where there is none; NULL: nothing is stored on disk then */
void kilni_config_read_dir(kilni_config_reader *reader, const kilni_dir_candidate *candidates,
                           size_t count, const char *fallback);

/* ---- profiles: each sets its defaults, and reads its variables ---- */

void kilni_config_read_common(kilni_config_reader *reader);
void kilni_config_read_kiln(kilni_config_reader *reader);
void kilni_config_read_sycl(kilni_config_reader *reader);
void kilni_config_read_onednn(kilni_config_reader *reader);
