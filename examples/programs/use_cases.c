/* SPDX-License-Identifier: Apache-2.0
 *
 * Three cases in which a runtime requests the same programs and kernels repeatedly: one kernel in a
 * loop, many kernels of one program, and a second start of the application.
 *
 *     use_cases [DIRECTORY]
 *
 * If a directory is given, the next process finds in it the programs that this process has built,
 * provided that the device's binaries are cheap to get.
 */
#include <stdio.h>
#include <string.h>

#include "compute.h"

enum { COUNT = 1000, BUFFERS = 20 };

static const char loop_source[] = "kernel void increment(global float *data)\n"
                                  "{ data[get_global_id(0)] += 1; }\n";

static const char many_source[] =
    "kernel void add(global float *data) { data[get_global_id(0)] += 3; }\n"
    "kernel void twice(global float *data) { data[get_global_id(0)] *= 2; }\n"
    "kernel void square(global float *data) { data[get_global_id(0)] *= data[get_global_id(0)]; }\n"
    "kernel void halve(global float *data) { data[get_global_id(0)] /= 2; }\n";

static kiln_program_desc *describe(const compute *on, const char *name, const char *source)
{
    const kiln_program_desc_params params = {
        .struct_size = sizeof params,
        .form = KILN_SOURCE_TEXT,
        .code = {source, strlen(source)},
        .options.compile = "-cl-std=CL1.2",
        .name = name,
    };
    kiln_program_desc *desc = NULL;
    kiln_error error = {.struct_size = sizeof error};
    require(kiln_program_desc_new(on->programs, &params, &desc, &error), &error, name);
    return desc;
}

static void say_where_it_came_from(const kiln_program_desc *desc, const char *name)
{
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    kiln_error error = {.struct_size = sizeof error};
    require(kiln_program_get(desc, &program, &result, &error), &error, name);
    printf("%s: the program was %s\n", name, compute_source_text(&result));
    kiln_program_release(&program);
}

/* Looks the kernel up, as a runtime does at each launch, and runs it. */
static void launch(const compute *on, const kiln_kernel_desc *described, float *data)
{
    kiln_kernel *kernel = NULL;
    kiln_error error = {.struct_size = sizeof error};
    require(kiln_kernel_get(described, &kernel, &error), &error, "kernel");
    kiln_kernel_lock(kernel); /* other threads may launch the same kernel */
    compute_run(on, kiln_kernel_handle(kernel), data, COUNT);
    kiln_kernel_unlock(kernel);
    kiln_kernel_release(&kernel);
}

static kiln_kernel_desc *describe_kernel(const kiln_program_desc *program, const char *name)
{
    kiln_kernel_desc *desc = NULL;
    require(kiln_kernel_desc_new(program, name, &desc), NULL, name);
    return desc;
}

static int one_kernel_in_a_loop(const compute *on)
{
    kiln_program_desc *program = describe(on, "loop", loop_source);
    kiln_kernel_desc *increment = describe_kernel(program, "increment");
    say_where_it_came_from(program, "one kernel in a loop");
    int is_right = 1;
    for (int i = 0; i < BUFFERS; i++) {
        float data[COUNT] = {0};
        data[i] = (float)i;
        launch(on, increment, data);
        is_right = is_right && data[i] == (float)i + 1 && data[COUNT - 1] == 1;
    }
    kiln_kernel_desc_release(&increment);
    kiln_program_desc_release(&program);
    return is_right;
}

static int many_kernels_of_one_program(const compute *on)
{
    static const char *const names[] = {"add", "twice", "square", "halve"};
    kiln_program_desc *program = describe(on, "many", many_source);
    say_where_it_came_from(program, "many kernels of one program");
    float data[COUNT] = {2};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        kiln_kernel_desc *kernel = describe_kernel(program, names[i]);
        launch(on, kernel, data);
        kiln_kernel_desc_release(&kernel);
    }
    kiln_program_desc_release(&program);
    return data[0] == 50 && data[1] == 18;
}

int main(int count, char **arguments)
{
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (count > 1) {
        require(kiln_store_open(arguments[1], NULL, &store, &error), &error, "store");
    }
    compute on;
    compute_open(store, &on);
    const int is_right = one_kernel_in_a_loop(&on) & many_kernels_of_one_program(&on);

    kiln_cache_stats programs = {.struct_size = sizeof programs},
                     kernels = {.struct_size = sizeof kernels};
    kiln_program_context_get_program_stats(on.programs, &programs);
    kiln_program_context_get_kernel_stats(on.programs, &kernels);
    printf("%d programs and %d kernels in memory; kernels were found there %d times\n",
           (int)programs.entries, (int)kernels.entries, (int)kernels.hits);
    compute_close(&on);
    kiln_store_close(&store);
    printf("all is %s\n", is_right ? "right" : "WRONG");
    return is_right ? 0 : 1;
}
