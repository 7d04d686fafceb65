/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz target on the files given as arguments, which is a plain regression test for
 * compilers without a fuzzer. Exits with 0 if all were run, and with 1 if one cannot be read.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_INPUT_BYTES (1 << 20)

static int run_file(const char *path, uint8_t *buffer)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    size_t size = fread(buffer, 1, MAX_INPUT_BYTES, file);
    int failed = ferror(file);
    fclose(file);
    if (failed) {
        fprintf(stderr, "%s: can't be read\n", path);
        return 1;
    }
    LLVMFuzzerTestOneInput(buffer, size);
    return 0;
}

int main(int argument_count, char **arguments)
{
    uint8_t *buffer = malloc(MAX_INPUT_BYTES);
    if (!buffer) {
        return 1;
    }
    int failed = 0;
    for (int i = 1; i < argument_count; i++) {
        failed |= run_file(arguments[i], buffer);
    }
    free(buffer);
    return failed;
}
