/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include <kiln/opencl.h>

#include "doctor.h"
#include "json.h"
#include "output.h"

/* KILN_KEY_ENV's patterns, NULL-ended; the caller frees the list. */
static const char **more_patterns(const struct doctor *doctor)
{
    size_t count = 0;
    while (kiln_config_key_variable(doctor->config, count) != NULL) {
        count++;
    }
    const char **patterns = must(calloc(count + 1, sizeof *patterns));
    for (size_t i = 0; i < count; i++) {
        patterns[i] = kiln_config_key_variable(doctor->config, i);
    }
    return patterns;
}

static void add_member(void *user, const char *name, const char *value)
{
    json_add(user, name, json_text_or_null(value));
}

void doctor_key_of_platform(struct doctor *doctor, json_t *platform, void *handle, const char *name)
{
    json_t *variables = must(json_object());
    json_t *files = must(json_object());
    const char **more = more_patterns(doctor);
    kiln_opencl_report_environment(name, more, add_member, variables);
    free(more);
    if (kiln_opencl_report_driver_files(handle, name, add_member, files) != KILN_OK) {
        doctor_problem(doctor, "the library of the driver of %s can't be told: nothing is cached",
                       name == NULL ? "a platform" : name);
    }
    json_add(platform, "key_variables", variables);
    json_add(platform, "driver_files", files);
}
