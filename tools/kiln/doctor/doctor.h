/* SPDX-License-Identifier: Apache-2.0
 *
 * The examination behind `kiln doctor`. Each part adds its findings to one report, which is then
 * printed as JSON or as text.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include <kiln/config.h>

typedef struct examination {
    const kiln_config *config;
    const char *directory; /* the value of --dir, or else the configuration's; NULL: none */
    uint64_t wait_ms;      /* how long a process is given to query drivers */
    json_t *report;        /* an object, which owns its members */
    json_t *problems;      /* texts that name what prevents builds from being cached as
                              configured */
    json_t *notes;         /* texts that name what works as configured, but might be unexpected */
} examination;

/* Returns an examination with an empty report. */
examination doctor_begin(const kiln_config *config, const char *directory);

/* Adds "notes" and "problems" to the report, and returns the report. The caller owns the only
 * reference to it. */
json_t *doctor_end(examination *doctor);

void doctor_problem(examination *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_note(examination *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds "directory", "tiers" (of a chain), "upgrades" (drivers that have replaced others),
 * "max_bytes", "readonly", "authenticated", "disabled" and "variables".
 */
void doctor_examine_cache(examination *doctor);

/* Adds "layer", "nvrtc_layer", "loader" and "platforms". OpenCL is loaded in a separate process, so
 * a driver that crashes or hangs is only a problem to report. */
void doctor_examine_opencl(examination *doctor);

/* Adds "folders": the folders of other caches that `kiln run` looks after, and the others. */
void doctor_examine_folders(examination *doctor);

/* Adds "python": the folder that `kiln run` puts into PYTHONPATH, and the frameworks that python3
 * has and that Kiln caches for. */
void doctor_examine_python(examination *doctor);

/* Prints the report as text on stdout. */
void doctor_print(const json_t *report);
