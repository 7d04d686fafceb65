/* SPDX-License-Identifier: Apache-2.0
 *
 * An application's own cache: it keeps blobs in files and makes programs from them.
 *
 *     cache_blob DIRECTORY
 *
 * The first process builds its program and keeps the blob. The next makes the program from the
 * blob.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"

enum { COUNT = 64 };

static const char source[] = "kernel void convolution_forward(global float *data)\n"
                             "{\n"
                             "    size_t i = get_global_id(0);\n"
                             "    float sum = 0;\n"
                             "    for (int tap = -2; tap <= 2; tap++) sum += (i + tap) * WEIGHT;\n"
                             "    data[i] = sum;\n"
                             "}\n";

/* ---- the application's files: an ID, then the blob ---- */

typedef struct bytes {
    uint8_t *data; /* NULL: nothing */
    size_t size;
} bytes;

/* A file's name, made from the ID. The file holds the ID too, because two IDs may yield the same
 * name. */
static void name_file(char *path, size_t size, const char *directory, bytes id)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < id.size; i++) {
        hash = (hash ^ id.data[i]) * UINT64_C(0x100000001b3);
    }
    snprintf(path, size, "%s/%016llx.blob", directory, (unsigned long long)hash);
}

static void store_cache_blob_on_disk(const char *directory, bytes id, bytes blob)
{
    char path[4096], unfinished[4200];
    name_file(path, sizeof path, directory, id);
    snprintf(unfinished, sizeof unfinished, "%s.tmp", path);
    FILE *file = fopen(unfinished, "wb");
    const int is_written = file && fwrite(&id.size, sizeof id.size, 1, file) == 1 &&
                           fwrite(id.data, id.size, 1, file) == 1 &&
                           fwrite(blob.data, blob.size, 1, file) == 1;
    const int is_whole = (!file || fclose(file) == 0) && is_written;
    if (!is_whole || rename(unfinished, path) != 0) {
        perror(path);
    }
}

static bytes read_file(const char *path)
{
    bytes whole = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file) {
        return whole;
    }
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    rewind(file);
    whole.data = size > 0 ? malloc((size_t)size) : NULL;
    if (whole.data) {
        whole.size = fread(whole.data, 1, (size_t)size, file);
    }
    fclose(file);
    return whole;
}

/* Empty if there is no such file, or if it holds a different ID. This function does not check the
 * blob's contents; Kiln does. */
static bytes load_cache_blob_from_disk(const char *directory, bytes id)
{
    char path[4096];
    name_file(path, sizeof path, directory, id);
    bytes whole = read_file(path);
    const size_t head = sizeof id.size + id.size;
    const int is_its = whole.size > head && memcmp(whole.data, &id.size, sizeof id.size) == 0 &&
                       memcmp(whole.data + sizeof id.size, id.data, id.size) == 0;
    if (!is_its) {
        free(whole.data);
        return (bytes){NULL, 0};
    }
    memmove(whole.data, whole.data + head, whole.size - head);
    whole.size -= head;
    return whole;
}

/* ---- the program ---- */

static kiln_program_desc *describe(const compute *on)
{
    const kiln_program_desc_params params = {
        .struct_size = sizeof params,
        .form = KILN_SOURCE_TEXT,
        .code = {source, strlen(source)},
        .options.compile = "-DWEIGHT=0.25f",
        .name = "convolution_forward",
    };
    kiln_program_desc *desc = NULL;
    kiln_error error = {.struct_size = sizeof error};
    require(kiln_program_desc_new(on->programs, &params, &desc, &error), &error, "description");
    return desc;
}

/* The ID belongs to the description and is valid as long as the description. */
static bytes get_cache_blob_id(const kiln_program_desc *desc)
{
    const uint8_t *id = NULL;
    size_t size = 0;
    require(kiln_program_desc_cache_blob_id(desc, &size, &id), NULL, "ID");
    return (bytes){(uint8_t *)(uintptr_t)id, size};
}

static bytes get_cache_blob(const kiln_program *program)
{
    bytes blob = {NULL, 0};
    if (kiln_program_get_cache_blob(program, &blob.size, NULL) == KILN_OK && blob.size > 0) {
        blob.data = malloc(blob.size);
        require(kiln_program_get_cache_blob(program, &blob.size, blob.data), NULL, "blob");
    }
    return blob;
}

/* If a blob cannot be used, prints why, and builds the program. */
static kiln_program *make(const kiln_program_desc *desc, bytes blob,
                          kiln_program_result *ret_result)
{
    kiln_program *program = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (kiln_program_create_from_cache_blob(desc, blob.size, blob.data, &program, ret_result,
                                            &error) != KILN_OK) {
        fprintf(stderr, "blob refused: %s\n", error.text);
        require(kiln_program_get(desc, &program, ret_result, &error), &error, "program");
    }
    return program;
}

static int computes(const compute *on, kiln_program *program)
{
    kiln_kernel *kernel = NULL;
    kiln_error error = {.struct_size = sizeof error};
    float data[COUNT] = {0};
    require(kiln_program_get_kernel(program, "convolution_forward", 0, &kernel, &error), &error,
            "kernel");
    compute_run(on, kiln_kernel_handle(kernel), data, COUNT);
    kiln_kernel_release(&kernel);
    return data[8] == 10.0f && data[COUNT - 8] == 70.0f;
}

int main(int count, char **arguments)
{
    if (count != 2) {
        fprintf(stderr, "cache_blob DIRECTORY\n");
        return 2;
    }
    compute on;
    compute_open(NULL, &on);
    kiln_program_desc *convolution_pd = describe(&on);
    const bytes key = get_cache_blob_id(convolution_pd);
    bytes value = load_cache_blob_from_disk(arguments[1], key);

    kiln_program_result result = {.struct_size = sizeof result};
    kiln_program *convolution = make(convolution_pd, value, &result);
    const int is_right = computes(&on, convolution);
    printf("%s, computes %s\n", compute_source_text(&result), is_right ? "right" : "WRONG");
    if (result.from != KILN_PROGRAM_FROM_BLOB) {
        bytes made = get_cache_blob(convolution);
        if (made.size > 0) {
            store_cache_blob_on_disk(arguments[1], key, made);
        }
        free(made.data);
    }
    free(value.data);
    kiln_program_release(&convolution);
    kiln_program_desc_release(&convolution_pd);
    compute_close(&on);
    return is_right ? 0 : 1;
}
