/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "escape.h"
#include "exit_code.h"
#include "memory.h"
#include "progress.h"

/* Writes a text, with all control characters escaped except line ends and tabs. */
static void write_text(FILE *file, const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t end = i;
        while (end < size && text[end] != '\n' && text[end] != '\t') {
            end++;
        }
        owned char *shown = escaped(text + i, end - i);
        fputs(shown, file);
        if (end < size) {
            fputc(text[end], file);
        }
        i = end + (end < size);
    }
}

void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    owned char *text = NULL;
    const int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    progress_hide();
    fflush(stdout);
    if (length < 0) {
        fputs("kiln: out of memory\n", stderr);
        return;
    }
    /* Kiln's own text can have several lines. Control characters in text that it quotes are
     * escaped. Everything is written at once, so that messages of several processes do not mix
     * within a line. */
    owned char *shown = NULL;
    size_t size = 0;
    FILE *stream = must(open_memstream(&shown, &size));
    fputs("kiln: ", stream);
    write_text(stream, text, (size_t)length);
    fputc('\n', stream);
    must_succeed(fclose(stream));
    fwrite(shown, 1, size, stderr);
}

void complain_once(const char *text)
{
    static char **reported;
    static size_t count;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(reported[i], text) == 0) {
            return;
        }
    }
    reported = must(realloc(reported, (count + 1) * sizeof *reported));
    reported[count++] = must(strdup(text));
    complain("%s", text);
}

void end_tool(int exit_code)
{
    if (ferror(stdout) || fflush(stdout) != 0) {
        complain("standard output: %s", strerror(errno));
        exit(EXIT_IO);
    }
    exit(exit_code);
}

int exit_code_of(kiln_status status)
{
    switch (status) {
    case KILN_OK:
        return EXIT_OK;
    case KILN_MISS:
        return EXIT_NOTHING_FOUND;
    case KILN_E_INVALID:
    case KILN_E_PARSE:
    case KILN_E_UNSUPPORTED:
    case KILN_E_DENIED:
        return EXIT_CONFIGURATION;
    case KILN_E_CORRUPT:
    case KILN_E_UNAUTHENTICATED:
        return EXIT_DAMAGED;
    default:
        return EXIT_IO;
    }
}

int complain_of_status(const char *what, kiln_status status)
{
    complain("%s: %s", what, kiln_status_text(status));
    return exit_code_of(status);
}

const char *error_text(const kiln_error *error, kiln_status status)
{
    return error->text[0] != '\0' ? error->text : kiln_status_text(status);
}

bool colours_wanted(void)
{
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && (no_color == NULL || no_color[0] == '\0') && terminal != NULL &&
           strcmp(terminal, "dumb") != 0;
}

void print_text(const char *text, size_t size)
{
    if (isatty(STDOUT_FILENO)) {
        write_text(stdout, text, size);
    } else if (size > 0) {
        fwrite(text, 1, size, stdout);
    }
}

void print_lines(const char *text)
{
    write_text(stdout, text, strlen(text));
}

void print_name(const char *text)
{
    owned char *shown = escaped(text, strlen(text));
    fputs(shown, stdout);
}

const char *noun_of(uint64_t count, const char *one, const char *several)
{
    return count == 1 ? one : several;
}
