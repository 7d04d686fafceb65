/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <kiln/version.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/location.h"
#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "doctor.h"

static const char usage[] =
    "Usage: kiln doctor [--dir DIR] [--key-file FILE] [--wait-ms N] [--json]\n"
    "\n"
    "Reports what a program would get here: the OpenCL loader, its drivers and devices, the cache\n"
    "directory, the folders of other caches, the frameworks of python3 and the variables that\n"
    "matter; and what is wrong with them.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --wait-ms N      how long drivers may take to answer; default: 30000\n"
    "  --json           one JSON object\n";

static json_t *examine(const kiln_config *config, const char *directory, uint64_t wait_ms)
{
    examination doctor = doctor_begin(config, directory);
    doctor.wait_ms = wait_ms;
    json_add(doctor.report, "version", json_text_or_null(KILN_VERSION));
    doctor_examine_cache(&doctor);
    doctor_examine_opencl(&doctor);
    doctor_examine_folders(&doctor);
    doctor_examine_python(&doctor);
    return doctor_end(&doctor);
}

int cmd_doctor(int argc, char **argv)
{
    const char *wait = "30000";
    command_line line = {
        .usage = usage,
        .options = {{.name = "wait-ms", .text = &wait}},
    };
    options_read(&line, argc, argv);
    const uint64_t wait_ms = options_wait_ms(argv[0], wait);
    kiln_config *config = NULL;
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    const char *path = line.directory != NULL ? line.directory : config->dir;
    owned char *directory = path == NULL ? NULL : absolute_location(path);
    json_t *report = examine(config, directory, wait_ms);
    bool healthy = json_array_size(json_object_get(report, "problems")) == 0;
    if (line.json) {
        json_print(stdout, report);
    } else {
        doctor_print(report);
        json_decref(report);
    }
    kiln_config_free(&config);
    return healthy ? EXIT_OK : EXIT_CONFIGURATION;
}
