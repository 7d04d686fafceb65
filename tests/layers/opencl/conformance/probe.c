/* SPDX-License-Identifier: Apache-2.0
 *
 * Information queries, made with every combination of arguments that OpenCL allows for sizes and
 * buffers.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILLER = 0xA5, SLACK = 16 };

static const size_t SIZE_UNTOUCHED = (size_t)-7;

cl_int ask_program(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    return clGetProgramInfo(of->object, param, size, value, ret_size);
}

cl_int ask_build(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    return clGetProgramBuildInfo(of->object, of->device, param, size, value, ret_size);
}

cl_int ask_kernel(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    return clGetKernelInfo(of->object, param, size, value, ret_size);
}

cl_int ask_argument(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    return clGetKernelArgInfo(of->object, of->index, param, size, value, ret_size);
}

cl_int ask_work_group(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    return clGetKernelWorkGroupInfo(of->object, of->device, param, size, value, ret_size);
}

cl_int ask_sub_group(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size)
{
    return clGetKernelSubGroupInfo(of->object, of->device, param, of->input_size, of->input, size,
                                   value, ret_size);
}

static int is_filler(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != FILLER) {
            return 0;
        }
    }
    return 1;
}

static void write_sizes(FILE *out, const unsigned char *value, size_t size, int only_whether)
{
    for (size_t at = 0; at + sizeof(size_t) <= size; at += sizeof(size_t)) {
        size_t one;
        memcpy(&one, value + at, sizeof one);
        if (only_whether) {
            fputs(one != 0 ? " some" : " none", out);
        } else {
            fprintf(out, " %zu", one);
        }
    }
}

static void write_handles(FILE *out, const unsigned char *value, size_t size)
{
    for (size_t at = 0; at + sizeof(void *) <= size; at += sizeof(void *)) {
        void *one;
        memcpy(&one, value + at, sizeof one);
        fprintf(out, " %s", handle_name(one));
    }
}

static void write_number(FILE *out, const unsigned char *value, size_t size, value_kind kind)
{
    cl_ulong number = 0;
    cl_int signed_number;
    memcpy(&number, value, size < sizeof number ? size : sizeof number);
    if (kind == VALUE_INT) {
        memcpy(&signed_number, &number, sizeof signed_number);
        fprintf(out, " %d", signed_number);
    } else {
        fprintf(out, " %llu", (unsigned long long)number);
    }
}

static void write_value(FILE *out, const unsigned char *value, size_t size, value_kind kind)
{
    char *text;
    switch (kind) {
    case VALUE_TEXT:
    case VALUE_LOG:
        text = printable((const char *)value, size);
        fprintf(out, " \"%s\"", text);
        free(text);
        break;
    case VALUE_UINT:
    case VALUE_INT:
    case VALUE_ULONG:
        write_number(out, value, size, kind);
        break;
    case VALUE_SIZES:
    case VALUE_NONZERO_SIZES:
        write_sizes(out, value, size, kind == VALUE_NONZERO_SIZES);
        break;
    case VALUE_HANDLES:
        write_handles(out, value, size);
        break;
    }
}

/* Queries once with a buffer of @given bytes. Writes the status, whether the returned size is
 * @expected, and whether the query wrote bytes that it must not change. */
static void query_with(FILE *out, ask_function ask, const subject *of, const query *question,
                       size_t given, size_t expected, const char *label)
{
    size_t size = SIZE_UNTOUCHED;
    unsigned char *value = malloc(given + SLACK);
    memset(value, FILLER, given + SLACK);
    cl_int status = ask(of, question->param, given, value, &size);
    size_t may_change = status == CL_SUCCESS ? (given < expected ? given : expected) : 0;
    fprintf(out, "; %s %s", label, status_name(status));
    if (size == SIZE_UNTOUCHED) {
        fputs(", no size", out);
    } else if (size != expected) {
        fputs(", another size", out);
    }
    if (!is_filler(value + may_change, given + SLACK - may_change)) {
        fputs(", wrote more", out);
    }
    if (status == CL_SUCCESS && given == expected) {
        write_value(out, value, given, question->kind);
    }
    free(value);
}

/* If the size cannot be queried, writes the answer to a query with a buffer of some size. */
static void probe_refusal(FILE *out, ask_function ask, const subject *of, const query *question)
{
    unsigned char value[64];
    size_t size = SIZE_UNTOUCHED;
    memset(value, FILLER, sizeof value);
    cl_int status = ask(of, question->param, sizeof value, value, &size);
    fprintf(out, "; with a buffer %s%s%s", status_name(status),
            size == SIZE_UNTOUCHED ? ", no size" : ", a size",
            is_filler(value, sizeof value) ? "" : ", wrote");
}

void probe(ask_function ask, const subject *of, const query *question)
{
    char *line = NULL;
    size_t line_size;
    size_t size = SIZE_UNTOUCHED;
    FILE *out = open_memstream(&line, &line_size);
    cl_int status = ask(of, question->param, 0, NULL, &size);
    fprintf(out, "%s: size only %s", question->name, status_name(status));
    if (status != CL_SUCCESS || size == SIZE_UNTOUCHED) {
        probe_refusal(out, ask, of, question);
    } else {
        if (question->kind != VALUE_LOG) {
            fprintf(out, " %zu", size);
        }
        fprintf(out, "; nothing wanted %s", status_name(ask(of, question->param, 0, NULL, NULL)));
        if (size > 1) {
            query_with(out, ask, of, question, size - 1, size, "short");
        }
        query_with(out, ask, of, question, size + SLACK, size, "large");
        query_with(out, ask, of, question, size, size, "exact");
    }
    fclose(out);
    say("%s", line);
    free(line);
}

void probe_all(ask_function ask, const subject *of, const query *questions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        probe(ask, of, &questions[i]);
    }
}

void probe_build(cl_program program, cl_device_id device)
{
    static const query of_build[] = {
        QUERY(CL_PROGRAM_BUILD_STATUS, VALUE_INT),
        QUERY(CL_PROGRAM_BUILD_OPTIONS, VALUE_TEXT),
        QUERY(CL_PROGRAM_BUILD_LOG, VALUE_LOG),
        QUERY(CL_PROGRAM_BINARY_TYPE, VALUE_UINT),
        QUERY(CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE, VALUE_ULONG),
    };
    subject of = {.object = program, .device = device};
    probe_all(ask_build, &of, of_build, COUNT(of_build));
}

static char *build_text(cl_program program, cl_device_id device, cl_program_build_info param)
{
    size_t size = 0;
    char *text = NULL;
    char *shown;
    cl_int status = clGetProgramBuildInfo(program, device, param, 0, NULL, &size);
    if (status == CL_SUCCESS) {
        text = calloc(1, size + 1);
        status = clGetProgramBuildInfo(program, device, param, size, text, NULL);
    }
    shown = status == CL_SUCCESS ? printable(text, strlen(text)) : strdup(status_name(status));
    free(text);
    return shown;
}

void say_build(cl_program program, cl_device_id device)
{
    cl_int state = 99;
    cl_int status =
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_STATUS, sizeof state, &state, NULL);
    char *options = build_text(program, device, CL_PROGRAM_BUILD_OPTIONS);
    char *log = build_text(program, device, CL_PROGRAM_BUILD_LOG);
    say("%s on %s: status %s %d, options '%s', log '%s'", handle_name(program), handle_name(device),
        status_name(status), state, options, log);
    free(options);
    free(log);
}
