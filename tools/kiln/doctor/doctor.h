/* SPDX-License-Identifier: Apache-2.0
 *
 * The examination behind `kiln doctor`: each part adds its findings to one report, which is then
 * printed as JSON or as text.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include <kiln/config.h>

typedef struct examination {
    const kiln_config *config;
    const char *directory; /* --dir, else what the configuration says; NULL: none */
    uint64_t wait_ms;      /* for how long a process may ask drivers */
    json_t *report;        /* an object; the members' owner */
    json_t *problems;      /* texts: what keeps builds from being cached as asked */
    json_t *notes;         /* texts: what is as it was asked for, but may surprise */
} examination;

/* An examination with nothing in its report yet. */
examination doctor_begin(const kiln_config *config, const char *directory);

/* The report, with "notes" and "problems", of which the caller gets the only reference. */
json_t *doctor_end(examination *doctor);

void doctor_problem(examination *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_note(examination *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "directory", "max_bytes", "readonly", "disabled", "variables". */
void doctor_examine_cache(examination *doctor);

/* "layer", "nvrtc_layer", "loader", "platforms". What loads OpenCL is a process of its own, so that
 * drivers that crash or hang are problems, too. */
void doctor_examine_opencl(examination *doctor);

/* The report as text on stdout. */
void doctor_print(const json_t *report);
