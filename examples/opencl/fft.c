/* SPDX-License-Identifier: Apache-2.0
 *
 * Fourier transforms of a few tones in noise, forward and back.
 */
#include "example.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH = 1024, BATCH = 8, PASS_COUNT = 4 };

static const int radices[PASS_COUNT] = {16, 8, 4, 2};

static cl_float2 signals[BATCH][LENGTH], spectra[BATCH][LENGTH], restored[BATCH][LENGTH];

static void fill(void)
{
    uint32_t seed = 4;
    for (int i = 0; i < BATCH; i++) {
        for (int j = 0; j < LENGTH; j++) {
            const double phase = 2.0 * M_PI * j / LENGTH;
            const double noise = (double)(next_number(&seed) % 1000) / 2000.0;
            signals[i][j].s[0] = (cl_float)(cos((37 + i) * phase) + noise);
            signals[i][j].s[1] = (cl_float)(0.5 * sin((411 + i) * phase));
        }
    }
}

/* Runs the passes of @direction, and swaps input and output after each. Returns the buffer that
 * holds the result. */
static cl_mem transform(example *self, cl_program program, const char *direction, cl_mem input,
                        cl_mem output)
{
    cl_int done = 1;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        char name[32];
        snprintf(name, sizeof name, "%s_%d", direction, radices[pass]);
        cl_kernel kernel = example_kernel(self, program, name);
        example_argument(kernel, 0, sizeof input, &input);
        example_argument(kernel, 1, sizeof output, &output);
        example_argument(kernel, 2, sizeof done, &done);
        example_launch(self, kernel, (const size_t[]){(size_t)(LENGTH / radices[pass]), BATCH},
                       NULL);
        clReleaseKernel(kernel);
        done *= radices[pass];
        const cl_mem written = output;
        output = input;
        input = written;
    }
    return input;
}

void fft_run(example *self)
{
    fill();
    cl_mem input = example_buffer(self, signals, sizeof signals);
    cl_mem output = example_buffer(self, NULL, sizeof signals);

    char options[64];
    snprintf(options, sizeof options, "-D LENGTH=%d", LENGTH);
    cl_program program = example_build(self, "fft.cl", options);
    const cl_mem spectrum = transform(self, program, "forward", input, output);
    example_read(self, spectrum, spectra, sizeof spectra);
    const cl_mem other = spectrum == input ? output : input;
    example_read(self, transform(self, program, "inverse", spectrum, other), restored,
                 sizeof restored);

    clReleaseProgram(program);
    clReleaseMemObject(input);
    clReleaseMemObject(output);
}

/* The textbook recursive transform of @count points, @stride apart in @input. */
static void expected_spectrum(const double complex *input, int count, int stride,
                              double complex *ret_output)
{
    if (count == 1) {
        ret_output[0] = input[0];
        return;
    }
    expected_spectrum(input, count / 2, 2 * stride, ret_output);
    expected_spectrum(input + stride, count / 2, 2 * stride, ret_output + count / 2);
    for (int k = 0; k < count / 2; k++) {
        const double complex even = ret_output[k];
        const double complex odd = ret_output[k + count / 2] * cexp(-2.0 * M_PI * I * k / count);
        ret_output[k] = even + odd;
        ret_output[k + count / 2] = even - odd;
    }
}

static double complex to_complex(cl_float2 value)
{
    return (double)value.s[0] + I * (double)value.s[1];
}

/* The largest difference, as a fraction of the largest possible value. */
static double spectrum_error(int signal)
{
    static double complex input[LENGTH], expected[LENGTH];
    double error = 0.0;
    for (int i = 0; i < LENGTH; i++) {
        input[i] = to_complex(signals[signal][i]);
    }
    expected_spectrum(input, LENGTH, 1, expected);
    for (int i = 0; i < LENGTH; i++) {
        error = fmax(error, cabs(to_complex(spectra[signal][i]) - expected[i]) / LENGTH);
    }
    return error;
}

static double restored_error(int signal)
{
    double error = 0.0;
    for (int i = 0; i < LENGTH; i++) {
        error = fmax(
            error, cabs(to_complex(restored[signal][i]) / LENGTH - to_complex(signals[signal][i])));
    }
    return error;
}

/* The strongest frequency, except the constant part. */
static int strongest(int signal)
{
    int best = 1;
    for (int i = 2; i < LENGTH; i++) {
        if (cabs(to_complex(spectra[signal][i])) > cabs(to_complex(spectra[signal][best]))) {
            best = i;
        }
    }
    return best;
}

int fft_check(void)
{
    double error = 0.0;
    printf("fft        of %d x %d points, strongest", BATCH, LENGTH);
    for (int i = 0; i < BATCH; i++) {
        const int bin = strongest(i);
        error = fmax(error, fmax(spectrum_error(i), restored_error(i)));
        /* A real tone shows at its frequency and at its mirror image. */
        printf(" %d", bin < LENGTH / 2 ? bin : LENGTH - bin);
    }
    printf(": %s\n", error < 1e-5 ? "right" : "WRONG");
    return error < 1e-5;
}
