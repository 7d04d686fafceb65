/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "json.h"
#include "layer.h"
#include "loader_environment.h"
#include "opencl_drivers.h"
#include "opencl_library.h"
#include "opencl_loader.h"
#include "output.h"

#define DEVICES_MAX 256
#define VENDORS_VARIABLE "OCL_ICD_VENDORS"

/* Parameters of clGetICDLoaderInfoOCLICD. */
enum { LOADER_VERSION = 2, LOADER_NAME = 3, LOADER_VENDOR = 4 };

typedef cl_int (*loader_info_fn)(cl_uint, size_t, void *, size_t *);

/* ---- the layer ---- */

struct layer_setup {
    char *path;   /* NULL: there is none */
    char *others; /* OPENCL_LAYERS as it was found; NULL: not set */
    char *list;   /* as a program under `kiln run` gets it; NULL: as it was found */
};

static struct layer_setup find_layer(struct doctor *doctor)
{
    const char *others = getenv("OPENCL_LAYERS");
    struct layer_setup setup = {.others = others == NULL ? NULL : must(strdup(others))};
    char *why = NULL;
    if (!layer_find(&setup.path, &why)) {
        doctor_problem(doctor, "no OpenCL layer: %s", why);
        free(why);
    } else if (!kiln_config_disabled(doctor->config)) {
        setup.list = layer_list_with(setup.path, others);
    }
    return setup;
}

/* What `kiln run` puts into LD_AUDIT. It was not put into this process, which is started by now. */
static void examine_nvrtc(struct doctor *doctor)
{
    char *path = NULL;
    char *why = NULL;
    if (!nvrtc_audit_find(&path, &why)) {
        doctor_problem(doctor, "no NVRTC layer: %s", why);
        free(why);
    }
    json_t *object = must(json_object());
    json_add(object, "path", json_text_or_null(path));
    json_add(doctor->report, "nvrtc_layer", object);
    free(path);
}

/* Lets this process's OpenCL be as a program's, but for what it would write. */
static void enter_program_environment(const struct layer_setup *setup)
{
    if (setup->list != NULL) {
        must_succeed(setenv("OPENCL_LAYERS", setup->list, 1));
    }
    must_succeed(setenv("KILN_READONLY", "1", 1));
    unsetenv("KILN_TRACE");
    unsetenv("KILN_STATS");
}

static bool is_loaded(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (handle != NULL) {
        dlclose(handle);
    }
    return handle != NULL;
}

/* The user's own layers. A loader passes by what it can't load, and says nothing. */
static void check_others(struct doctor *doctor, const struct layer_setup *setup)
{
    char *names = must(strdup(setup->others == NULL ? "" : setup->others));
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
    free(names);
}

static void report_layer(struct doctor *doctor, const struct layer_setup *setup,
                         bool opencl_started)
{
    json_t *object = must(json_object());
    bool loaded = opencl_started && setup->path != NULL && is_loaded(setup->path);
    if (opencl_started && setup->list != NULL && !loaded) {
        doctor_problem(doctor, "the loader did not load the layer %s", setup->path);
    }
    json_add(object, "path", json_text_or_null(setup->path));
    json_add(object, "loaded", json_boolean(loaded));
    json_add(doctor->report, "layer", object);
}

/* Some loaders put an end to the variable's text after its first name. */
static void note_cut_list(struct doctor *doctor, const struct layer_setup *setup)
{
    const char *now = getenv("OPENCL_LAYERS");
    if (setup->list != NULL && now != NULL && strcmp(now, setup->list) != 0) {
        doctor_note(doctor,
                    "OPENCL_LAYERS names several layers, and this loader hides all but the first "
                    "(%s) from the programs that a program starts",
                    now);
    }
}

/* ---- the loader ---- */

static void add_loader_text(json_t *object, const char *member, loader_info_fn info, cl_uint name)
{
    char text[256] = "";
    size_t size = 0;
    bool told = info != NULL && info(name, sizeof text - 1, text, &size) == CL_SUCCESS;
    json_add(object, member, told ? json_text_or_null(text) : json_null());
}

static void add_loader_kind(json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *vendor = json_string_value(json_object_get(object, "vendor"));
    const char *kind = "unknown";
    if (name != NULL && strstr(name, "Khronos") != NULL) {
        kind = "khronos";
    } else if (vendor != NULL && strcasestr(vendor, "OCL Icd") != NULL) {
        kind = "ocl-icd";
    }
    json_add(object, "kind", json_text_or_null(kind));
}

/* @instead_of  the loader that a program gets without `kiln run`, where that is another; or NULL
 * @obstacle    why one that knows layers can't be put before it; NULL: there is none */
static void report_loader(struct doctor *doctor, const struct opencl *opencl,
                          const char *instead_of, const char *obstacle)
{
    json_t *object = must(json_object());
    void *address;
    memcpy(&address, &opencl->clGetPlatformIDs, sizeof address);
    Dl_info where = {0};
    char *path = NULL;
    if (dladdr(address, &where) != 0 && where.dli_fname != NULL) {
        path = realpath(where.dli_fname, NULL);
    }
    void *found = opencl->clGetExtensionFunctionAddress("clGetICDLoaderInfoOCLICD");
    loader_info_fn info;
    memcpy(&info, &found, sizeof info);

    bool knows_layers = path != NULL && opencl_loader_knows_layers(path);
    json_add(object, "path", json_text_or_null(path));
    add_loader_text(object, "name", info, LOADER_NAME);
    add_loader_text(object, "vendor", info, LOADER_VENDOR);
    add_loader_text(object, "version", info, LOADER_VERSION);
    add_loader_kind(object);
    json_add(object, "layers", json_boolean(knows_layers));
    json_add(object, "instead_of", json_text_or_null(instead_of));
    if (!knows_layers) {
        doctor_problem(doctor, "%s knows no layers, %s: no OpenCL build is cached",
                       path == NULL ? OPENCL_LIBRARY : path,
                       obstacle != NULL ? obstacle
                                        : "and this system has no other loader that does (as "
                                          "ocl-icd, 2.3.0 or later)");
    } else if (instead_of != NULL) {
        doctor_note(doctor, "%s knows no layers: kiln run puts %s before it", instead_of, path);
    }
    json_add(doctor->report, "loader", object);
    free(path);
}

/* ---- platforms and devices ---- */

static json_t *platform_text(const struct opencl *opencl, cl_platform_id platform,
                             cl_platform_info name)
{
    char text[OPENCL_TEXT_SIZE];
    return opencl_platform_text(opencl, platform, name, text) ? json_text_or_null(text)
                                                              : json_null();
}

static json_t *device_text(const struct opencl *opencl, cl_device_id device, cl_device_info name)
{
    char text[1024] = "";
    bool told = opencl->clGetDeviceInfo(device, name, sizeof text - 1, text, NULL) == CL_SUCCESS;
    return told ? json_text_or_null(text) : json_null();
}

static json_t *devices_of(const struct opencl *opencl, cl_platform_id platform)
{
    json_t *list = must(json_array());
    cl_device_id devices[DEVICES_MAX];
    cl_uint count = 0;
    if (opencl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &count) !=
        CL_SUCCESS) {
        return list;
    }
    for (cl_uint i = 0; i < count && i < DEVICES_MAX; i++) {
        json_t *object = must(json_object());
        json_add(object, "name", device_text(opencl, devices[i], CL_DEVICE_NAME));
        json_add(object, "version", device_text(opencl, devices[i], CL_DEVICE_VERSION));
        json_add(object, "driver_version", device_text(opencl, devices[i], CL_DRIVER_VERSION));
        json_push(list, object);
    }
    return list;
}

static void report_platforms(struct doctor *doctor, const struct opencl *opencl)
{
    json_t *list = must(json_array());
    cl_platform_id platforms[OPENCL_PLATFORMS_MAX];
    const cl_uint count = opencl_platforms(opencl, platforms);
    if (count == 0) {
        doctor_problem(doctor, "the loader finds no OpenCL driver");
    }
    for (cl_uint i = 0; i < count; i++) {
        json_t *object = must(json_object());
        json_t *devices = devices_of(opencl, platforms[i]);
        json_add(object, "name", platform_text(opencl, platforms[i], CL_PLATFORM_NAME));
        json_add(object, "vendor", platform_text(opencl, platforms[i], CL_PLATFORM_VENDOR));
        json_add(object, "version", platform_text(opencl, platforms[i], CL_PLATFORM_VERSION));
        const char *name = json_string_value(json_object_get(object, "name"));
        doctor_key_of_platform(doctor, object, platforms[i], name);
        if (json_array_size(devices) == 0) {
            doctor_problem(doctor, "the platform %s has no device", name == NULL ? "?" : name);
        }
        json_add(object, "devices", devices);
        json_push(list, object);
    }
    json_add(doctor->report, "platforms", list);
}

/* What `kiln run` puts into OCL_ICD_VENDORS where another loader stands in. Nothing of it stays: it
 * is made in a folder of its own, to be given to leave_drivers. */
static char *enter_drivers(struct doctor *doctor, const char *instead, const char *found)
{
    const char *temporary = getenv("TMPDIR");
    char *folder = text_of("%s/kiln-doctor-XXXXXX", temporary != NULL ? temporary : "/tmp");
    char *why = NULL;
    if (mkdtemp(folder) == NULL) {
        doctor_problem(doctor, "%s: %s", folder, strerror(errno));
        free(folder);
        return NULL;
    }
    char *drivers = loader_drivers(instead, found, folder, &why);
    if (drivers != NULL) {
        must_succeed(setenv(VENDORS_VARIABLE, drivers, 1));
        doctor_note(doctor,
                    "%s does not read " OPENCL_LIST_VARIABLE ": kiln run has it find the same "
                    "drivers by " VENDORS_VARIABLE,
                    instead);
    } else if (why != NULL) {
        doctor_problem(doctor, "%s", why);
    }
    free(why);
    free(drivers);
    return folder;
}

static void leave_drivers(char *folder)
{
    const char *vendors = getenv(VENDORS_VARIABLE);
    if (folder != NULL) {
        if (vendors != NULL && strncmp(vendors, folder, strlen(folder)) == 0) {
            opencl_drivers_folder_remove(vendors);
        }
        rmdir(folder);
    }
    free(folder);
}

void doctor_examine_loader(struct doctor *doctor)
{
    struct layer_setup setup = find_layer(doctor);
    enter_program_environment(&setup);
    struct opencl opencl;
    char *why = NULL;
    char *found = opencl_loader_found();
    bool knows_layers = found != NULL && opencl_loader_knows_layers(found);
    char *instead = found == NULL || knows_layers ? NULL : opencl_loader_instead_of(found);
    char *obstacle = instead == NULL ? NULL : loader_environment_obstacle();
    if (obstacle != NULL) {
        free(instead);
        instead = NULL;
    }
    char *drivers = instead == NULL ? NULL : enter_drivers(doctor, instead, found);
    bool loaded = opencl_load(instead != NULL ? instead : OPENCL_LIBRARY, &opencl, &why);
    if (!loaded) {
        doctor_problem(doctor, "%s", why);
        free(why);
    } else {
        report_loader(doctor, &opencl, instead != NULL ? found : NULL, obstacle);
        report_platforms(doctor, &opencl);
        check_others(doctor, &setup);
        note_cut_list(doctor, &setup);
    }
    leave_drivers(drivers);
    report_layer(doctor, &setup, loaded);
    examine_nvrtc(doctor);
    free(found);
    free(instead);
    free(obstacle);
    free(setup.path);
    free(setup.others);
    free(setup.list);
}
