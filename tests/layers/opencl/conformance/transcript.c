/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the transcript: lines, names of handles, and names of status codes.
 */
#include "conformance.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 4096 };

typedef struct named_handle {
    const void *handle;
    char name[40];
} named_handle;

static named_handle names[NAMES_MAX];
static size_t name_count;
static int failures;

/* The stream of the calling thread's lines; NULL: stdout. */
static _Thread_local FILE *redirected;
static _Thread_local char *redirected_text;
static _Thread_local size_t redirected_size;

static FILE *transcript(void)
{
    return redirected != NULL ? redirected : stdout;
}

void transcript_redirect(void)
{
    redirected = open_memstream(&redirected_text, &redirected_size);
}

int transcript_is_redirected(void)
{
    return redirected != NULL;
}

char *transcript_take(void)
{
    if (redirected == NULL) {
        return NULL;
    }
    fclose(redirected);
    redirected = NULL;
    return redirected_text;
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("  ", transcript());
    vfprintf(transcript(), format, arguments);
    fputc('\n', transcript());
    va_end(arguments);
}

void say_status(cl_int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("  ", transcript());
    vfprintf(transcript(), format, arguments);
    fprintf(transcript(), ": %s\n", status_name(status));
    va_end(arguments);
}

void check(int right, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("  ", transcript());
    vfprintf(transcript(), format, arguments);
    fprintf(transcript(), ": %s\n", right ? "right" : "WRONG");
    va_end(arguments);
    if (!right) {
        __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    }
}

int checks_failed(void)
{
    return __atomic_load_n(&failures, __ATOMIC_RELAXED);
}

void name_handle(const void *handle, const char *format, ...)
{
    va_list arguments;
    named_handle *entry = NULL;
    for (size_t i = 0; i < name_count; i++) {
        if (names[i].handle == handle) {
            entry = &names[i];
        }
    }
    if (entry == NULL && name_count < NAMES_MAX) {
        entry = &names[name_count++];
    }
    if (entry == NULL || handle == NULL) {
        return;
    }
    entry->handle = handle;
    va_start(arguments, format);
    vsnprintf(entry->name, sizeof entry->name, format, arguments);
    va_end(arguments);
}

const char *handle_name(const void *handle)
{
    if (handle == NULL) {
        return "NULL";
    }
    for (size_t i = 0; i < name_count; i++) {
        if (names[i].handle == handle) {
            return names[i].name;
        }
    }
    return "a handle never seen";
}

/* Returns the end of a word, which contains no blanks, quotes or colons. */
static size_t word_end(const char *text, size_t size, size_t from)
{
    while (from < size && !isspace((unsigned char)text[from]) &&
           strchr("'\":,", text[from]) == NULL) {
        from++;
    }
    return from;
}

static int is_temporary_name(const char *word, size_t size)
{
    static const char *const marks[] = {"tempfile", "/tmp/", "pocl", "kcache"};
    if (size == 0 || memchr(word, '/', size) == NULL) {
        return 0;
    }
    for (size_t i = 0; i < COUNT(marks); i++) {
        if (memmem(word, size, marks[i], strlen(marks[i])) != NULL) {
            return 1;
        }
    }
    return 0;
}

/* Intel's compiler starts its messages with a number that counts the process's builds: "7:1:12:
 * warning: …". Returns its length if a line starts with one. */
static size_t build_number(const char *line, size_t size)
{
    size_t digits = 0;
    size_t at = 0;
    for (int colons = 0; colons < 3; colons++, at++) {
        size_t from = at;
        while (at < size && isdigit((unsigned char)line[at])) {
            at++;
        }
        if (at == from || at == size || line[at] != ':') {
            return 0;
        }
        digits = colons == 0 ? at : digits;
    }
    return digits;
}

char *printable(const char *text, size_t size)
{
    char *made = NULL;
    size_t made_size;
    FILE *out = open_memstream(&made, &made_size);
    for (size_t i = 0; i < size;) {
        size_t number = i == 0 || text[i - 1] == '\n' ? build_number(text + i, size - i) : 0;
        if (number > 0) {
            fputs("<NUMBER>", out);
            i += number;
        }
        size_t end = word_end(text, size, i);
        if (is_temporary_name(text + i, end - i)) {
            fputs("<FILE>", out);
            i = end;
            continue;
        }
        end = end > i ? end : i + 1;
        for (; i < end; i++) {
            unsigned char letter = (unsigned char)text[i];
            if (letter == '\n') {
                fputs("\\n", out);
            } else if (isprint(letter)) {
                fputc(letter, out);
            } else {
                fprintf(out, "\\x%02x", letter);
            }
        }
    }
    fclose(out);
    return made;
}

const char *status_name(cl_int status)
{
    static _Thread_local char unknown[24];
#define STATUS(code)                                                                               \
    case code:                                                                                     \
        return #code
    switch (status) {
        STATUS(CL_SUCCESS);
        STATUS(CL_DEVICE_NOT_FOUND);
        STATUS(CL_DEVICE_NOT_AVAILABLE);
        STATUS(CL_COMPILER_NOT_AVAILABLE);
        STATUS(CL_MEM_OBJECT_ALLOCATION_FAILURE);
        STATUS(CL_OUT_OF_RESOURCES);
        STATUS(CL_OUT_OF_HOST_MEMORY);
        STATUS(CL_BUILD_PROGRAM_FAILURE);
        STATUS(CL_COMPILE_PROGRAM_FAILURE);
        STATUS(CL_LINKER_NOT_AVAILABLE);
        STATUS(CL_LINK_PROGRAM_FAILURE);
        STATUS(CL_DEVICE_PARTITION_FAILED);
        STATUS(CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
        STATUS(CL_INVALID_VALUE);
        STATUS(CL_INVALID_PLATFORM);
        STATUS(CL_INVALID_DEVICE);
        STATUS(CL_INVALID_CONTEXT);
        STATUS(CL_INVALID_COMMAND_QUEUE);
        STATUS(CL_INVALID_BINARY);
        STATUS(CL_INVALID_BUILD_OPTIONS);
        STATUS(CL_INVALID_PROGRAM);
        STATUS(CL_INVALID_PROGRAM_EXECUTABLE);
        STATUS(CL_INVALID_KERNEL_NAME);
        STATUS(CL_INVALID_KERNEL_DEFINITION);
        STATUS(CL_INVALID_KERNEL);
        STATUS(CL_INVALID_ARG_INDEX);
        STATUS(CL_INVALID_ARG_VALUE);
        STATUS(CL_INVALID_ARG_SIZE);
        STATUS(CL_INVALID_KERNEL_ARGS);
        STATUS(CL_INVALID_WORK_GROUP_SIZE);
        STATUS(CL_INVALID_OPERATION);
        STATUS(CL_INVALID_COMPILER_OPTIONS);
        STATUS(CL_INVALID_LINKER_OPTIONS);
        STATUS(CL_INVALID_SPEC_ID);
    }
#undef STATUS
    snprintf(unknown, sizeof unknown, "status %d", status);
    return unknown;
}
