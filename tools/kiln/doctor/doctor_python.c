/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "../opencl/layer_variables.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "doctor.h"
#include "subprocess.h"

/* Asks the list of the doors which of its frameworks python3 has. Returns an empty list if there is
 * no python3, or if it reports an error. */
static json_t *list_frameworks(void *folder)
{
    must_succeed(setenv("KILN_DOORS", folder, 1));
    FILE *output = popen("exec python3 \"$KILN_DOORS/../_doors.py\" 2>/dev/null", "r");
    json_t *frameworks = output != NULL ? json_loadf(output, 0, NULL) : NULL;
    if (output != NULL) {
        pclose(output);
    }
    return json_is_array(frameworks) ? frameworks : must(json_array());
}

static void note_unknown(examination *doctor, const json_t *frameworks)
{
    size_t i;
    const json_t *framework;
    json_array_foreach(frameworks, i, framework)
    {
        const char *name = json_string_value(json_object_get(framework, "name"));
        const char *version = json_string_value(json_object_get(framework, "version"));
        if (name != NULL && version != NULL && !json_is_true(json_object_get(framework, "known"))) {
            doctor_note(doctor, "Kiln does not know %s %s: what it compiles is not cached", name,
                        version);
        }
    }
}

void doctor_examine_python(examination *doctor)
{
    owned char *folder = NULL;
    owned char *why = python_folder_find(&folder);
    json_t *frameworks = NULL;
    if (why != NULL) {
        doctor_problem(doctor, "nothing is cached for frameworks for Python: %s", why);
    }
    if (folder != NULL) {
        owned char *why_none = NULL;
        frameworks = subprocess_call(list_frameworks, folder, doctor->wait_ms, &why_none);
        if (frameworks == NULL) {
            doctor_note(doctor, "python3 does not tell its frameworks: it %s", why_none);
        }
    }
    note_unknown(doctor, frameworks);
    json_t *object = must(json_object());
    json_add(object, "folder", json_text_or_null(folder));
    json_add(object, "frameworks", frameworks != NULL ? frameworks : must(json_array()));
    json_add(doctor->report, "python", object);
}
