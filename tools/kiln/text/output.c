/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
     * escaped. */
    fputs("kiln: ", stderr);
    write_text(stderr, text, (size_t)length);
    fputc('\n', stderr);
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

char *format_size(uint64_t bytes, char *text)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(text, UNIT_TEXT_SIZE, "%" PRIu64 " B", bytes);
        return text;
    }
    double amount = (double)bytes / 1024;
    size_t unit = 0;
    while (amount >= 1023.5 && unit + 1 < sizeof units / sizeof units[0]) {
        amount /= 1024;
        unit++;
    }
    snprintf(text, UNIT_TEXT_SIZE, amount < 9.95 ? "%.1f %s" : "%.0f %s", amount, units[unit]);
    return text;
}

/* Writes three significant digits. */
static void format_amount(double amount, const char *unit, char *text)
{
    int decimals = amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0;
    snprintf(text, UNIT_TEXT_SIZE, "%.*f %s", decimals, amount, unit);
}

char *format_duration(uint64_t nanoseconds, char *text)
{
    if (nanoseconds < 1000) {
        snprintf(text, UNIT_TEXT_SIZE, "%" PRIu64 " ns", nanoseconds);
        return text;
    }
    double seconds = (double)nanoseconds / 1e9;
    uint64_t whole_s = (nanoseconds + 500000000) / 1000000000;
    if (seconds < 0.9995e-3) {
        format_amount(seconds * 1e6, "us", text);
    } else if (seconds < 0.9995) {
        format_amount(seconds * 1e3, "ms", text);
    } else if (whole_s < 60) {
        format_amount(seconds, "s", text);
    } else if (whole_s < 3600) {
        snprintf(text, UNIT_TEXT_SIZE, "%" PRIu64 " min %" PRIu64 " s", whole_s / 60, whole_s % 60);
    } else {
        snprintf(text, UNIT_TEXT_SIZE, "%" PRIu64 " h %" PRIu64 " min", whole_s / 3600,
                 whole_s % 3600 / 60);
    }
    return text;
}

char *format_time(int64_t unix_s, char *text)
{
    time_t moment = (time_t)unix_s;
    struct tm local;
    if (localtime_r(&moment, &local) == NULL ||
        strftime(text, UNIT_TEXT_SIZE, "%Y-%m-%d %H:%M:%S", &local) == 0) {
        snprintf(text, UNIT_TEXT_SIZE, "-");
    }
    return text;
}
