/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <kiln/opencl.h>

#include "doctor.h"
#include "json.h"
#include "key_patterns.h"
#include "output.h"

static void add_member(void *user, const char *name, const char *value)
{
    json_add(user, name, json_text_or_null(value));
}

/* A driver may have several files of one name: from the second on a number is behind it. */
static void add_file(void *user, const char *name, const char *identity)
{
    char *unique = must(strdup(name));
    for (unsigned number = 2; json_object_get(user, unique) != NULL; number++) {
        free(unique);
        unique = text_of("%s (%u)", name, number);
    }
    json_add(user, unique, json_text_or_null(identity));
    free(unique);
}

void doctor_key_of_platform(struct doctor *doctor, json_t *platform, void *handle, const char *name)
{
    json_t *variables = must(json_object());
    json_t *files = must(json_object());
    const char **more = key_patterns(doctor->config);
    kiln_opencl_report_environment(name, more, add_member, variables);
    free(more);
    if (kiln_opencl_report_driver_files(handle, name, add_file, files) != KILN_OK) {
        doctor_problem(doctor, "the library of the driver of %s can't be told: nothing is cached",
                       name == NULL ? "a platform" : name);
    }
    json_add(platform, "key_variables", variables);
    json_add(platform, "driver_files", files);
}
