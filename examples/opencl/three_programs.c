/* SPDX-License-Identifier: Apache-2.0
 *
 * An ordinary OpenCL program. It builds a matrix product, a reduction and an FFT from source, runs
 * them, and checks the results. It contains nothing specific to Kiln.
 */
#include "example.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

typedef struct options {
    const char *platform;
    const char *kernel_folder;
    int print_times;
} options;

static void usage(FILE *stream)
{
    fprintf(stream, "usage: three_programs [--platform NAME] [--kernels FOLDER] [--time]\n"
                    "  --platform NAME   use the first platform whose name contains NAME\n"
                    "  --kernels FOLDER  the folder of the .cl files\n"
                    "  --time            print times as a last line of JSON\n");
}

static options parse(int argc, char **argv)
{
    static const struct option known[] = {{"platform", required_argument, NULL, 'p'},
                                          {"kernels", required_argument, NULL, 'k'},
                                          {"time", no_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    options chosen = {.kernel_folder = KERNEL_FOLDER};
    int letter;
    while ((letter = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (letter) {
        case 'p':
            chosen.platform = optarg;
            break;
        case 'k':
            chosen.kernel_folder = optarg;
            break;
        case 't':
            chosen.print_times = 1;
            break;
        default:
            usage(letter == 'h' ? stdout : stderr);
            exit(letter == 'h' ? 0 : 2);
        }
    }
    if (optind < argc) {
        usage(stderr);
        exit(2);
    }
    return chosen;
}

int main(int argc, char **argv)
{
    const uint64_t start = now_ns();
    const options chosen = parse(argc, argv);
    example self = {.kernel_folder = chosen.kernel_folder};

    example_open(&self, chosen.platform);
    matrix_run(&self);
    reduction_run(&self);
    fft_run(&self);
    const uint64_t results = now_ns();
    example_close(&self);

    const int right = matrix_check() + reduction_check() + fft_check() == 3;
    if (chosen.print_times) {
        printf("{\"main_ns\":%" PRIu64 ",\"results_ns\":%" PRIu64 ",\"build_ns\":%" PRIu64
               ",\"launch_ns\":%" PRIu64 "}\n",
               start, results, self.build_ns, self.launch_ns);
    }
    return right ? 0 : 1;
}
