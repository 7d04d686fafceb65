/* SPDX-License-Identifier: Apache-2.0
 *
 * opencl_conformance: drives OpenCL case by case and writes a transcript that is the same in each
 * run. compare.py runs it with and without a layer below it, and compares.
 *
 *     opencl_conformance [--platform SUBSTRING] [--cycles N] [--threads N] [--list]
 *         [--blind-writes] [CASE…]
 *     opencl_conformance [--platform SUBSTRING] --source FILE [--options OPTIONS] [--first FILE]
 *         [--before COMMAND] [--see platform|any] [--linked [--link-options OPTIONS]
 *         [--header FILE [--header-name NAME]] [--between COMMAND] [--move-to FOLDER]]
 *     opencl_conformance [--platform SUBSTRING] --leave-running SALT
 *
 * With --blind-writes, a thread writes to the descriptors 1 and 2 all the time, whatever they are.
 * The second form builds one file, or compiles and links it, and runs its kernel f. The third
 * returns from main while work is running.
 *
 * Exit status: 0; 1: a result was wrong; 2: no such platform or case.
 */
#include "conformance.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const conformance_case *const all_cases[] = {
    handle_cases,  build_cases,    callback_cases, query_cases,  kernel_cases,   device_cases,
    rebuild_cases, lifetime_cases, link_cases,     linked_cases, compiled_cases, binary_cases,
    il_cases,      include_cases,  misuse_cases,   thread_cases,
};

static const conformance_case *find_case(const char *name)
{
    for (size_t i = 0; i < COUNT(all_cases); i++) {
        for (const conformance_case *one = all_cases[i]; one->name != NULL; one++) {
            if (strcmp(one->name, name) == 0) {
                return one;
            }
        }
    }
    return NULL;
}

static void list_cases(void)
{
    for (size_t i = 0; i < COUNT(all_cases); i++) {
        for (const conformance_case *one = all_cases[i]; one->name != NULL; one++) {
            printf("%s%s\n", one->name, one->cacheable ? " cacheable" : "");
        }
    }
}

static void run_case(const conformance_case *one)
{
    printf("%s\n", one->name);
    one->run();
    fflush(stdout);
}

static void run_all_cases(void)
{
    for (size_t i = 0; i < COUNT(all_cases); i++) {
        for (const conformance_case *one = all_cases[i]; one->name != NULL; one++) {
            run_case(one);
        }
    }
}

/* Returns the first platform whose name contains @wanted. */
static int choose_platform(const char *wanted)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    if (clGetPlatformIDs(COUNT(platforms), platforms, &count) != CL_SUCCESS) {
        return 0;
    }
    for (cl_uint i = 0; i < count && i < COUNT(platforms); i++) {
        setting.platform = platforms[i];
        if (clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof setting.platform_name,
                              setting.platform_name, NULL) == CL_SUCCESS &&
            strstr(setting.platform_name, wanted) != NULL) {
            return clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &setting.device, NULL) ==
                   CL_SUCCESS;
        }
    }
    return 0;
}

static int fail(const char *what, const char *name)
{
    fprintf(stderr, "opencl_conformance: %s '%s'\n", what, name);
    return 2;
}

/* What the command line asks for. */
typedef struct request {
    const char *platform;
    source_run source;
    const char *salt;
    int list;
    int writes_blindly;
} request;

static int parse_arguments(int argc, char **argv, request *wanted)
{
    static const struct option options[] = {
        {"platform", required_argument, NULL, 'p'},
        {"cycles", required_argument, NULL, 'c'},
        {"threads", required_argument, NULL, 't'},
        {"list", no_argument, NULL, 'l'},
        {"source", required_argument, NULL, 's'},
        {"options", required_argument, NULL, 'o'},
        {"round-to-zero", no_argument, NULL, 'z'},
        {"leave-running", required_argument, NULL, 'r'},
        {"linked", no_argument, NULL, 'L'},
        {"link-options", required_argument, NULL, 'O'},
        {"header", required_argument, NULL, 'H'},
        {"header-name", required_argument, NULL, 'N'},
        {"move-to", required_argument, NULL, 'M'},
        {"first", required_argument, NULL, 'F'},
        {"see", required_argument, NULL, 'S'},
        {"before", required_argument, NULL, 'B'},
        {"between", required_argument, NULL, 'C'},
        {"blind-writes", no_argument, NULL, 'b'},
        {NULL, 0, NULL, 0},
    };
    int letter;
    *wanted = (request){.platform = ""};
    setting.cycles = 200;
    setting.threads = THREADS_MAX;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (letter) {
        case 'p':
            wanted->platform = optarg;
            break;
        case 'c':
            setting.cycles = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 't':
            setting.threads = atoi(optarg);
            break;
        case 'l':
            wanted->list = 1;
            break;
        case 's':
            wanted->source.path = optarg;
            break;
        case 'o':
            wanted->source.options = optarg;
            break;
        case 'L':
            wanted->source.is_linked = 1;
            break;
        case 'O':
            wanted->source.link_options = optarg;
            break;
        case 'H':
            wanted->source.header = optarg;
            break;
        case 'N':
            wanted->source.header_name = optarg;
            break;
        case 'M':
            wanted->source.move_to = optarg;
            break;
        case 'F':
            wanted->source.first = optarg;
            break;
        case 'S':
            wanted->source.see = optarg;
            break;
        case 'B':
            wanted->source.before = optarg;
            break;
        case 'C':
            wanted->source.between = optarg;
            break;
        case 'z':
            wanted->source.rounds_to_zero = 1;
            break;
        case 'r':
            wanted->salt = optarg;
            break;
        case 'b':
            wanted->writes_blindly = 1;
            break;
        default:
            return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv)
{
    request wanted;
    if (!parse_arguments(argc, argv, &wanted)) {
        return 2;
    }
    if (wanted.list) {
        list_cases();
        return 0;
    }
    for (int i = optind; i < argc; i++) {
        if (find_case(argv[i]) == NULL) {
            return fail("no such case", argv[i]);
        }
    }
    if (setting.threads < 1 || setting.threads > THREADS_MAX) {
        return fail("not a number of threads", "--threads");
    }
    if (!choose_platform(wanted.platform)) {
        return fail("no platform of that name with a device", wanted.platform);
    }
    name_handle(setting.device, "D");
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (wanted.writes_blindly) {
        write_blindly();
    }
    if (wanted.source.path != NULL) {
        return run_source_file(&wanted.source);
    }
    if (wanted.salt != NULL) {
        return leave_running(wanted.salt);
    }
    for (int i = optind; i < argc; i++) {
        run_case(find_case(argv[i]));
    }
    if (optind == argc) {
        run_all_cases();
    }
    return checks_failed() != 0;
}
