/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../opencl/layer_variables.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "doctor_opencl.h"

static bool is_loaded(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (handle != NULL) {
        dlclose(handle);
    }
    return handle != NULL;
}

/* Checks the user's own layers. A loader skips a layer that it cannot load, and reports nothing. */
static void check_others(examination *doctor, const opencl_setup *setup)
{
    owned char *names = must(strdup(setup->other_layers == NULL ? "" : setup->other_layers));
    char *rest = names;
    for (char *name; (name = strsep(&rest, ":")) != NULL;) {
        if (name[0] == '\0' || is_loaded(name)) {
            continue;
        }
        bool is_path = strchr(name, '/') != NULL;
        doctor_problem(doctor, "OPENCL_LAYERS names %s: %s", name,
                       is_path && access(name, R_OK) != 0 ? strerror(errno)
                                                          : "the loader did not load it");
    }
}

/* Some loaders write a zero byte after the first name in the variable, which cuts off the list.
 * Adds a note if this has happened. */
static void note_cut_list(examination *doctor, const opencl_setup *setup)
{
    const char *now = getenv("OPENCL_LAYERS");
    if (setup->layers != NULL && now != NULL && strcmp(now, setup->layers) != 0) {
        doctor_note(doctor,
                    "OPENCL_LAYERS names several layers, and this loader hides all but the first "
                    "(%s) from the programs that a program starts",
                    now);
    }
}

void doctor_check_layers(examination *doctor, const opencl_setup *setup)
{
    const bool loaded = setup->layer != NULL && is_loaded(setup->layer);
    check_others(doctor, setup);
    note_cut_list(doctor, setup);
    if (setup->layers != NULL && !loaded) {
        doctor_problem(doctor, "the loader did not load the layer %s", setup->layer);
    }
    doctor_report_layer(doctor, setup, loaded);
}

void doctor_report_layer(examination *doctor, const opencl_setup *setup, bool loaded)
{
    json_t *object = must(json_object());
    json_add(object, "path", json_text_or_null(setup->layer));
    json_add(object, "loaded", json_boolean(loaded));
    json_add(doctor->report, "layer", object);
}

/* Reports environment variables that add options to NVRTC's compilations. */
static void check_nvrtc_variables(examination *doctor)
{
    static const char *const names[] = {"NVRTC_PREPEND_FLAGS", "NVRTC_APPEND_FLAGS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (getenv(names[i]) != NULL) {
            doctor_problem(doctor, "%s is set: NVRTC compilations are not cached", names[i]);
        }
    }
}

/* Reports what `kiln run` puts into LD_AUDIT. This process runs without it. */
void doctor_report_nvrtc_layer(examination *doctor)
{
    owned char *path = NULL;
    owned char *why = nvrtc_audit_find(&path);
    if (why != NULL) {
        doctor_problem(doctor, "no NVRTC layer: %s", why);
    }
    check_nvrtc_variables(doctor);
    json_t *object = must(json_object());
    json_add(object, "path", json_text_or_null(path));
    json_add(doctor->report, "nvrtc_layer", object);
}
