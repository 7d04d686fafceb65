/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TERMS = 16 };

struct program {
    size_t terms;
    double factors[MOST_TERMS];
};

const char *runtime_version(void)
{
    return "polynomials 1.0";
}

program *runtime_compile(const char *source)
{
    const struct timespec a_while = {.tv_nsec = 100 * 1000 * 1000};
    program *made = calloc(1, sizeof *made);
    const char *at = source;
    char *end;
    if (!made) {
        return NULL;
    }
    printf("compiling \"%s\"\n", source);
    nanosleep(&a_while, NULL);
    for (double factor = strtod(at, &end); end != at && made->terms < MOST_TERMS;
         factor = strtod(at, &end)) {
        made->factors[made->terms++] = factor;
        at = end;
    }
    if (*at != '\0' || made->terms == 0) {
        program_release(made);
        return NULL;
    }
    return made;
}

double program_run(const program *made, double x)
{
    double sum = 0;
    for (size_t i = made->terms; i > 0; i--) {
        sum = sum * x + made->factors[i - 1];
    }
    return sum;
}

void program_release(program *made)
{
    free(made);
}

size_t program_size(const program *made)
{
    return sizeof *made;
}

const void *program_binary(const program *made)
{
    return made;
}

program *program_load(const void *binary, size_t size)
{
    program *made = malloc(sizeof *made);
    if (!made || size != sizeof *made) {
        free(made);
        return NULL;
    }
    memcpy(made, binary, size);
    if (made->terms == 0 || made->terms > MOST_TERMS) {
        program_release(made);
        return NULL;
    }
    return made;
}
