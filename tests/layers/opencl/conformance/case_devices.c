/* SPDX-License-Identifier: Apache-2.0
 *
 * Several devices in a context, builds for some of them, sub-devices, several platforms.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char based[] =
    "__kernel void f(__global int *out) { out[get_global_id(0)] = BASE + get_global_id(0); }\n";

/* A context with two sub-devices, and a queue on each of them. */
typedef struct pair {
    cl_device_id devices[2];
    cl_context context;
    scene on[2];
} pair;

static int pair_open(pair *opened)
{
    cl_int status;
    if (split_device(opened->devices) != 2) {
        say("skipped: the device does not split in two");
        return 0;
    }
    opened->context = clCreateContext(NULL, 2, opened->devices, NULL, NULL, &status);
    say_status(status, "context of D1 and D2");
    name_handle(opened->context, "C");
    for (int i = 0; i < 2; i++) {
        opened->on[i] = (scene){.device = opened->devices[i],
                                .context = opened->context,
                                .queue = queue_open(opened->context, opened->devices[i])};
    }
    return status == CL_SUCCESS;
}

static void pair_close(pair *opened)
{
    for (int i = 0; i < 2; i++) {
        clFinish(opened->on[i].queue);
        clReleaseCommandQueue(opened->on[i].queue);
    }
    /* PoCL releases a command's references shortly after the command's event. */
    for (int i = 0; i < 100 && context_references(opened->context) > 1; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    say("context: %u", context_references(opened->context));
    clReleaseContext(opened->context);
    clReleaseDevice(opened->devices[0]);
    clReleaseDevice(opened->devices[1]);
}

static void say_both(const pair *in, cl_program program)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_NUM_DEVICES, VALUE_UINT),
        QUERY(CL_PROGRAM_DEVICES, VALUE_HANDLES),
        QUERY(CL_PROGRAM_BINARY_SIZES, VALUE_NONZERO_SIZES),
        QUERY(CL_PROGRAM_NUM_KERNELS, VALUE_SIZES),
        QUERY(CL_PROGRAM_KERNEL_NAMES, VALUE_TEXT),
    };
    subject of = {.object = program};
    probe_all(ask_program, &of, of_program, COUNT(of_program));
    for (int i = 0; i < 2; i++) {
        say("%s", handle_name(in->devices[i]));
        probe_build(program, in->devices[i]);
    }
}

static void build_on(cl_program program, cl_uint count, const cl_device_id *devices,
                     const char *options)
{
    say_status(clBuildProgram(program, count, devices, options, NULL, NULL),
               "build %s for %s%s with %s", handle_name(program), handle_name(devices[0]),
               count == 2 ? " and the other" : "", options);
}

static void run_on(const pair *in, cl_program program, int which, int first)
{
    cl_int status;
    int values[ITEMS] = {0};
    cl_kernel kernel = clCreateKernel(program, "f", &status);
    say_status(status, "kernel for %s", handle_name(in->devices[which]));
    if (status != CL_SUCCESS) {
        return;
    }
    status = run_kernel(in->context, in->on[which].queue, kernel, values);
    say_status(status, "run on %s gives %d … %d", handle_name(in->devices[which]), values[0],
               values[ITEMS - 1]);
    if (status == CL_SUCCESS) {
        check(values[3] == first + 3, "that is %d and so on", first);
    }
    clReleaseKernel(kernel);
}

static void all_devices(void)
{
    pair in;
    if (!pair_open(&in)) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        cl_program program = program_of(in.context, based, i == 0 ? "P1" : "P2");
        build(program, "-DBASE=5");
        say_both(&in, program);
        run_on(&in, program, 0, 5);
        run_on(&in, program, 1, 5);
        clReleaseProgram(program);
    }
    pair_close(&in);
}

/* Builds for one device, then for the other, then for both. Whether the earlier builds remain
 * depends on the runtime. */
static void subsets(void)
{
    pair in;
    if (!pair_open(&in)) {
        return;
    }
    cl_program program = program_of(in.context, based, "P1");
    build_on(program, 1, &in.devices[0], "-DBASE=10");
    say_both(&in, program);
    run_on(&in, program, 0, 10);
    build_on(program, 1, &in.devices[1], "-DBASE=20");
    say_both(&in, program);
    run_on(&in, program, 1, 20);
    build_on(program, 2, in.devices, "-DBASE=30");
    say_both(&in, program);
    run_on(&in, program, 0, 30);
    run_on(&in, program, 1, 30);
    clReleaseProgram(program);
    pair_close(&in);
}

static void one_of_two(void)
{
    pair in;
    if (!pair_open(&in)) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        cl_program program = program_of(in.context, based, i == 0 ? "P1" : "P2");
        build_on(program, 1, &in.devices[i], "-DBASE=40");
        say_both(&in, program);
        run_on(&in, program, i, 40);
        clReleaseProgram(program);
    }
    pair_close(&in);
}

/* Binaries of two devices come in the order of CL_PROGRAM_DEVICES, and a NULL skips one. */
static void binaries_of_two(void)
{
    pair in;
    if (!pair_open(&in)) {
        return;
    }
    size_t sizes[2] = {0, 0};
    cl_program program = program_of(in.context, based, "P1");
    build(program, "-DBASE=50");
    cl_int status = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL);
    say_status(status, "sizes: %s, %s", sizes[0] > 0 ? "some" : "none",
               sizes[1] > 0 ? "some" : "none");
    unsigned char *first = calloc(1, sizes[0] + 1);
    unsigned char *second = calloc(1, sizes[1] + 1);
    unsigned char *only_second[] = {NULL, second};
    unsigned char *both[] = {first, second};
    const unsigned char *loadable[] = {first, second};
    if (!runtime_is_pocl()) {
        /* PoCL writes to the NULL. */
        say_status(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof both, only_second, NULL),
                   "the second alone");
    }
    say_status(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof both, both, NULL), "both");
    cl_int states[2] = {99, 99};
    cl_program loaded =
        clCreateProgramWithBinary(in.context, 2, in.devices, sizes, loadable, states, &status);
    say_status(status, "load both, %s and %s", status_name(states[0]), status_name(states[1]));
    if (status == CL_SUCCESS) {
        name_handle(loaded, "L");
        build(loaded, "-DBASE=50");
        run_on(&in, loaded, 0, 50);
        run_on(&in, loaded, 1, 50);
        clReleaseProgram(loaded);
    }
    clReleaseProgram(program);
    free(first);
    free(second);
    pair_close(&in);
}

static void in_a_sub_device(void)
{
    cl_device_id devices[2];
    cl_uint count = split_device(devices);
    for (cl_uint i = 0; i < count; i++) {
        scene in = scene_open_on(devices[i]);
        cl_program program = program_of(in.context, based, "P1");
        build(program, "-DBASE=60");
        say_build(program, in.device);
        check_program(&in, program, "f", 60);
        clReleaseProgram(program);
        scene_close(&in);
    }
    for (cl_uint i = 0; i < count; i++) {
        clReleaseDevice(devices[i]);
    }
}

/* Builds the same program for a device and for its sub-device. */
static void root_then_part(void)
{
    const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_device_id parts[64];
    cl_uint count = 0;
    cl_int status = clCreateSubDevices(setting.device, equally, 0, NULL, &count);
    say_status(status, "how many parts of one unit");
    if (status != CL_SUCCESS || count > COUNT(parts)) {
        return;
    }
    say_status(clCreateSubDevices(setting.device, equally, count, parts, NULL), "make them");
    cl_device_id devices[] = {setting.device, parts[0], setting.device};
    for (size_t i = 0; i < COUNT(devices); i++) {
        scene in = scene_open_on(devices[i]);
        cl_program program = program_of(in.context, based, "P1");
        build(program, "-DBASE=70");
        check_program(&in, program, "f", 70);
        clReleaseProgram(program);
        scene_close(&in);
    }
    for (cl_uint i = 0; i < count; i++) {
        clReleaseDevice(parts[i]);
    }
}

static void on_each_platform(void)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    clGetPlatformIDs(COUNT(platforms), platforms, &count);
    for (int round = 0; round < 2; round++) {
        for (cl_uint i = 0; i < count && i < COUNT(platforms); i++) {
            cl_device_id device;
            char options[32];
            if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
                continue;
            }
            snprintf(options, sizeof options, "-DBASE=%u", 80 + i);
            scene in = scene_open_on(device);
            cl_program program = program_of(in.context, based, "P1");
            name_handle(device, "the device of platform %u", i);
            build(program, options);
            say_build(program, device);
            check_program(&in, program, "f", 80 + (int)i);
            clReleaseProgram(program);
            scene_close(&in);
        }
    }
    name_handle(setting.device, "D");
}

/* Uses contexts and programs of all platforms at the same time. */
static void platforms_at_once(void)
{
    enum { MAX = 4 };
    cl_platform_id platforms[MAX];
    cl_uint count = 0;
    scene in[MAX];
    cl_program programs[MAX];
    cl_uint opened = 0;
    clGetPlatformIDs(MAX, platforms, &count);
    for (cl_uint i = 0; i < count && i < MAX; i++) {
        cl_device_id device;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
            continue;
        }
        in[opened] = scene_open_on(device);
        programs[opened] = program_of(in[opened].context, based, "P");
        build(programs[opened], "-DBASE=90");
        opened++;
    }
    for (cl_uint i = 0; i < opened; i++) {
        check_program(&in[i], programs[i], "f", 90);
    }
    for (cl_uint i = 0; i < opened; i++) {
        clReleaseProgram(programs[i]);
        scene_close(&in[i]);
    }
}

const conformance_case device_cases[] = {
    {"devices.all", all_devices, 1},
    {"devices.subsets", subsets, 0},
    {"devices.one-of-two", one_of_two, 1},
    {"devices.binaries", binaries_of_two, 0},
    {"devices.sub-device", in_a_sub_device, 1},
    {"devices.root-then-sub-device", root_then_part, 1},
    {"devices.each-platform", on_each_platform, 1},
    {"devices.platforms-at-once", platforms_at_once, 1},
    {NULL, NULL, 0},
};
