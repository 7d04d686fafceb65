/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration, and the functions with which profiles read it from variables.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/config.h>

#include "base/text.h"

/* A configuration, both while variables are read into it and when it is returned. */
typedef struct kilni_config {
    /* The first member, so that it has the address of the configuration. Profiles set its numbers
     * and switches. Its pointers are set last, and point into the members below. */
    kiln_config shown;

    /* Common to all profiles. */
    char *trace, *stats, *record, *tool, *key_file; /* NULL if not set */
    char *http_token_file, *redis_password, *secret_key_file;
    char *trusted_keys; /* the path of the user's file of trusted keys; NULL: unknown */
    char *aws_access_key_id, *aws_secret_access_key, *aws_session_token, *aws_credentials_file;
    char *aws_region;
    kiln_store_credentials credentials; /* points to the texts above */
    /* Strings one after another, each with its terminating NUL. */
    kilni_text key_variables, warnings;

    /* Set by the profile. */
    char *dir;                              /* the location of the store; NULL: none */
    int is_persistent;                      /* whether anything is kept on disk */
    kiln_store_params store;                /* common settings are filled in last */
    kiln_cache_params memory;               /* without destroy and user */
    bool keeps_images_only;                 /* KILN_RULES_IMAGES */
    char *compile_options, *link_options;   /* replace the options of images; NULL: these stay */
    char *appended_compile, *appended_link; /* appended to the options; NULL: none */
} kilni_config;

/* Reads variables into a configuration. After the first failure, nothing more is read. The only
 * possible failure is lack of memory. */
typedef struct kilni_config_reader {
    kiln_lookup_fn lookup;
    void *user;
    kilni_config *config;
    kiln_status status;
} kilni_config_reader;

/* Returns the value of a variable; NULL if it is unset or empty. Unset and empty mean the same for
 * all variables except KILN_SIGNING_KEY_FILE and its older name. */
const char *kilni_config_value(const kilni_config_reader *reader, const char *name);

/* Adds the line "NAME=value: expected; used". */
void kilni_config_warn(kilni_config_reader *reader, const char *name, const char *value,
                       const char *expected, const char *used);

/* The last parameter of the next three functions contains the default before the call, and the
 * variable's value afterwards. The default stays if the variable is unset, or if its value is
 * wrong. For a wrong value, a warning is added. @used describes the default in this warning. */
void kilni_config_read_switch(kilni_config_reader *reader, const char *name, int *switched);
void kilni_config_read_size(kilni_config_reader *reader, const char *name, const char *used,
                            uint64_t *bytes);
/* Reads a whole number without a suffix. @noun names what the number counts, such as "days". */
void kilni_config_read_number(kilni_config_reader *reader, const char *name, const char *noun,
                              uint64_t max, uint64_t *number);
/* Reads any text. */
void kilni_config_read_text(kilni_config_reader *reader, const char *name, char **text);

/* Joins a folder's path and a path below the folder. Returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_config_join_path(const char *base, const char *below, char **ret_path);

typedef struct kilni_dir_candidate {
    const char *variable;
    const char *below;   /* appended to the value */
    bool takes_location; /* the value may also be a URL, or a chain of several locations */
} kilni_dir_candidate;

/* Takes the first candidate that is set to an absolute path or, if takes_location is set, to a URL.
 * Warns about each earlier candidate that is set.
 *
 * @fallback  used if there is no such candidate; if it is NULL, nothing is stored on disk */
void kilni_config_read_dir(kilni_config_reader *reader, const kilni_dir_candidate *candidates,
                           size_t count, const char *fallback);

/* ---- profiles: each sets its defaults, and reads its variables ---- */

void kilni_config_read_common(kilni_config_reader *reader);
void kilni_config_read_kiln(kilni_config_reader *reader);
void kilni_config_read_sycl(kilni_config_reader *reader);
void kilni_config_read_onednn(kilni_config_reader *reader);
