/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor_opencl.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../opencl/layer_variables.h"
#include "../opencl/opencl_drivers.h"
#include "../opencl/opencl_loader.h"
#include "../opencl/replaced_loader.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "subprocess.h"

/* This value names neither a folder nor a driver. */
#define NO_DRIVERS "/dev/null"

#define FOLDERS_OPEN_MAX 8

/* ---- what a program gets ---- */

static opencl_setup find_setup(examination *doctor)
{
    const char *others = getenv("OPENCL_LAYERS");
    opencl_setup setup = {
        .other_layers = others == NULL ? NULL : must(strdup(others)),
        .found = opencl_loader_found(),
    };
    owned char *why = layer_find(&setup.layer);
    if (why != NULL) {
        doctor_problem(doctor, "no OpenCL layer: %s", why);
    } else if (!doctor->config->disabled) {
        setup.layers = layer_list_with(setup.layer, others);
    }
    if (setup.found != NULL && !opencl_loader_supports_layers(setup.found)) {
        setup.replacement = opencl_loader_replacement(setup.found);
    }
    setup.obstacle = setup.replacement == NULL ? NULL : loader_environment_obstacle();
    if (setup.obstacle != NULL) {
        free(setup.replacement);
        setup.replacement = NULL;
    }
    return setup;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

static void setup_done(opencl_setup *setup)
{
    if (setup->folder != NULL) {
        nftw(setup->folder, remove_one, FOLDERS_OPEN_MAX, FTW_DEPTH | FTW_PHYS);
    }
    free(setup->layer);
    free(setup->other_layers);
    free(setup->layers);
    free(setup->found);
    free(setup->replacement);
    free(setup->obstacle);
    free(setup->folder);
}

static bool need_folder(examination *doctor, opencl_setup *setup)
{
    if (setup->folder == NULL) {
        const char *temporary = getenv("TMPDIR");
        setup->folder = text_of("%s/kiln-doctor-XXXXXX", temporary != NULL ? temporary : "/tmp");
        if (mkdtemp(setup->folder) == NULL) {
            doctor_problem(doctor, "%s: %s", setup->folder, strerror(errno));
            free(setup->folder);
            setup->folder = NULL;
        }
    }
    return setup->folder != NULL;
}

/* ---- in a separate process ---- */

typedef void report_fn(examination *doctor, const opencl_setup *setup,
                       const opencl_functions *opencl);

typedef struct driver_question {
    const examination *doctor; /* the caller's */
    const opencl_setup *setup;
    const char *drivers; /* a folder that names the drivers to load, without layers; NULL: load all
                            drivers, as in a program */
    report_fn *report;
} driver_question;

/* Sets OCL_ICD_VENDORS as `kiln run` does if it replaces the loader. */
static void enter_drivers(examination *doctor, const opencl_setup *setup)
{
    owned char *why = NULL;
    owned char *drivers = loader_drivers(setup->replacement, setup->found, setup->folder, &why);
    if (drivers != NULL) {
        must_succeed(setenv(OPENCL_VENDORS_VARIABLE, drivers, 1));
        doctor_note(doctor,
                    "the loader %s does not read " OPENCL_LIST_VARIABLE
                    ": kiln run names the same drivers in " OPENCL_VENDORS_VARIABLE,
                    setup->replacement);
    } else if (why != NULL) {
        doctor_problem(doctor, "%s", why);
    }
}

/* Sets up the same environment for OpenCL as a program has, but prevents the layer from writing
 * anything. */
static void enter_program_environment(examination *doctor, const opencl_setup *setup)
{
    if (setup->layers != NULL) {
        must_succeed(setenv("OPENCL_LAYERS", setup->layers, 1));
    }
    must_succeed(setenv("KILN_READONLY", "1", 1));
    unsetenv("KILN_TRACE");
    unsetenv("KILN_STATS");
    if (setup->replacement != NULL && setup->folder != NULL) {
        enter_drivers(doctor, setup);
    }
}

static void enter_bare_environment(const char *drivers)
{
    must_succeed(setenv(OPENCL_VENDORS_VARIABLE, drivers, 1));
    unsetenv(OPENCL_LIST_VARIABLE);
    unsetenv("OPENCL_LAYERS");
}

static json_t *answer_question(void *user)
{
    const driver_question *question = user;
    const opencl_setup *setup = question->setup;
    examination doctor = doctor_begin(question->doctor->config, question->doctor->directory);
    opencl_functions opencl;
    owned char *why = NULL;
    if (question->drivers == NULL) {
        enter_program_environment(&doctor, setup);
    } else {
        enter_bare_environment(question->drivers);
    }
    if (opencl_load(setup->replacement != NULL ? setup->replacement : OPENCL_LIBRARY, &opencl,
                    &why)) {
        question->report(&doctor, setup, &opencl);
    } else {
        doctor_problem(&doctor, "%s", why);
    }
    return doctor_end(&doctor);
}

static void report_all(examination *doctor, const opencl_setup *setup,
                       const opencl_functions *opencl)
{
    if (doctor_report_platforms(doctor, opencl) == 0) {
        doctor_problem(doctor, "the loader finds no OpenCL driver");
    }
    doctor_check_layers(doctor, setup);
}

static void report_driver(examination *doctor, const opencl_setup *setup,
                          const opencl_functions *opencl)
{
    (void)setup;
    doctor_report_platforms(doctor, opencl);
}

/* ---- the answer ---- */

/* Adds each text once: several processes can report the same text. */
static void add_texts(json_t *texts, const json_t *more)
{
    size_t i, j;
    json_t *text, *known;
    json_array_foreach(more, i, text)
    {
        bool is_known = false;
        json_array_foreach(texts, j, known)
        {
            is_known |= json_equal(known, text) != 0;
        }
        if (!is_known) {
            must_succeed(json_array_append(texts, text));
        }
    }
}

/* Takes over @answer. */
static void take_answer(examination *doctor, json_t *answer)
{
    json_t *platforms = json_object_get(doctor->report, "platforms");
    json_t *more = json_object_get(answer, "platforms");
    add_texts(doctor->notes, json_object_get(answer, "notes"));
    add_texts(doctor->problems, json_object_get(answer, "problems"));
    json_object_del(answer, "notes");
    json_object_del(answer, "problems");
    if (platforms != NULL && more != NULL) {
        must_succeed(json_array_extend(platforms, more));
    }
    must_succeed(json_object_update_missing(doctor->report, answer));
    json_decref(answer);
}

/* Queries OpenCL in a separate process. If there was no answer, reports this as a problem and
 * returns false.
 *
 * @drivers  as in driver_question
 * @whom     what is queried, in words */
static bool ask(examination *doctor, const opencl_setup *setup, const char *drivers,
                report_fn *report, const char *whom)
{
    driver_question question = {doctor, setup, drivers, report};
    owned char *why = NULL;
    json_t *answered = subprocess_call(answer_question, &question, doctor->wait_ms, &why);
    if (answered == NULL) {
        doctor_problem(doctor, "%s can't be queried: the process that tried %s", whom, why);
        return false;
    }
    take_answer(doctor, answered);
    return true;
}

/* ---- which driver is broken ---- */

static bool ask_driver(examination *doctor, const opencl_setup *setup, char *library)
{
    const opencl_drivers one = {.libraries = &library, .count = 1};
    owned char *why = NULL;
    owned char *folder = opencl_drivers_folder(&one, setup->folder, &why);
    if (folder == NULL) {
        doctor_problem(doctor, "%s", why);
        return false;
    }
    owned char *whom = text_of("the driver %s", library);
    return ask(doctor, setup, folder, report_driver, whom);
}

static bool reads_list(const opencl_setup *setup)
{
    return (setup->found != NULL && opencl_loader_reads(setup->found, OPENCL_LIST_VARIABLE)) ||
           (setup->replacement != NULL &&
            opencl_loader_reads(setup->replacement, OPENCL_LIST_VARIABLE));
}

/* Queries each driver in a separate process, so that the report names the broken driver, and still
 * contains the others. */
static void ask_each_driver(examination *doctor, opencl_setup *setup)
{
    opencl_drivers drivers = opencl_drivers_find(
        reads_list(setup) ? getenv(OPENCL_LIST_VARIABLE) : NULL, getenv(OPENCL_VENDORS_VARIABLE));
    size_t answered = 0;
    json_add(doctor->report, "platforms", must(json_array()));
    if (drivers.count > 0 && need_folder(doctor, setup)) {
        for (size_t i = 0; i < drivers.count; i++) {
            answered += ask_driver(doctor, setup, drivers.libraries[i]);
        }
    }
    if (answered > 0 && answered == drivers.count) {
        doctor_note(doctor, "each driver can be queried alone and without layers");
    }
    opencl_drivers_done(&drivers);
}

/* ---- all of it ---- */

void doctor_examine_opencl(examination *doctor)
{
    opencl_setup setup = find_setup(doctor);
    if (setup.replacement != NULL) {
        need_folder(doctor, &setup);
    }
    ask(doctor, &setup, NO_DRIVERS, doctor_report_loader, "the OpenCL loader");
    if (!ask(doctor, &setup, NULL, report_all, "OpenCL with all its drivers and layers")) {
        ask_each_driver(doctor, &setup);
    }
    if (json_object_get(doctor->report, "layer") == NULL) {
        doctor_report_layer(doctor, &setup, false);
    }
    doctor_report_nvrtc_layer(doctor);
    setup_done(&setup);
}
