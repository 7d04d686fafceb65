/* SPDX-License-Identifier: Apache-2.0
 *
 * The examination behind `kiln doctor`: each part adds its findings to one report, which is then
 * printed as JSON or as text.
 */
#pragma once

#include <jansson.h>

#include <kiln/config.h>

struct doctor {
    const kiln_config *config;
    const char *directory; /* --dir, else what the configuration says; NULL: none */
    json_t *report;        /* an object; the members' owner */
    json_t *problems;      /* texts: what keeps builds from being cached as asked */
    json_t *notes;         /* texts: what is as it was asked for, but may surprise */
};

void doctor_problem(struct doctor *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_note(struct doctor *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "directory", "max_bytes", "readonly", "disabled", "variables". */
void doctor_examine_cache(struct doctor *doctor);

/* "layer", "nvrtc_layer", "loader", "platforms". Loads OpenCL into this process, and the layer with
 * it. */
void doctor_examine_loader(struct doctor *doctor);

/* Adds to a platform's object what is a part of each key on it: "key_variables", by pattern or
 * name, with null where none is set, and "driver_files" with their identities. */
void doctor_key_of_platform(struct doctor *doctor, json_t *platform, void *handle,
                            const char *name);

/* The report as text on stdout. */
void doctor_print(const json_t *report);
