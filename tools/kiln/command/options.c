/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/config.h>

#include "../text/escape.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "location.h"

/* Results of getopt_long. OWN + i is the subcommand's own option i. */
enum { DIRECTORY = 256, KEY_FILE, JSON, HELP, OWN };

#define COMMON_OPTIONS 4

/* A day. */
#define WAIT_MS_MAX 86400000

#define LIMIT_DIGITS_MAX 9
#define TIME_DIGITS_MAX 9
#define SECONDS_PER_DAY 86400

/* A subcommand's own options come first, so that one of them may replace a common option. */
static void fill_table(const command_line *line, struct option *table)
{
    static const struct option common[COMMON_OPTIONS + 1] = {
        {"dir", required_argument, NULL, DIRECTORY},
        {"key-file", required_argument, NULL, KEY_FILE},
        {"json", no_argument, NULL, JSON},
        {"help", no_argument, NULL, HELP},
    };
    int count = 0;
    for (; count < OPTIONS_MAX && line->options[count].name != NULL; count++) {
        const option_spec *own = &line->options[count];
        int argument = own->text != NULL ? required_argument : no_argument;
        table[count] = (struct option){own->name, argument, NULL, OWN + count};
    }
    memcpy(table + count, common, sizeof common);
}

static void set_own(const option_spec *own, const char *argument)
{
    if (own->text != NULL) {
        *own->text = argument;
    } else {
        *own->flag = true;
    }
}

void options_wrong(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    owned char *text = text_of_list(format, arguments);
    va_end(arguments);
    owned char *shown = escaped(text, strlen(text));
    fflush(stdout);
    fprintf(stderr, "%s: %s\nTry '%s --help'.\n", command, shown, command);
    end_tool(EXIT_USAGE);
}

uint64_t options_wait_ms(const char *command, const char *text)
{
    char *end = NULL;
    const unsigned long long ms = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || ms > WAIT_MS_MAX) {
        options_wrong(command, "--wait-ms expects 0 to %d milliseconds, not '%s'", WAIT_MS_MAX,
                      text);
    }
    return ms;
}

uint64_t options_size(const char *command, const char *name, const char *text, uint64_t if_absent)
{
    uint64_t bytes = if_absent;
    if (text != NULL && kiln_size_parse(text, &bytes) != KILN_OK) {
        options_wrong(command,
                      "--%s expects a number of bytes, or a number with a unit, such as 500M, "
                      "10MiB or 2GB, not '%s'",
                      name, text);
    }
    return bytes;
}

/* Returns a time in seconds; 0 if the text is not a time.
 *
 * @unit  of a number without a suffix, in seconds */
static uint64_t parse_time(const char *text, uint64_t unit)
{
    const struct {
        const char *suffix;
        uint64_t seconds;
    } units[] = {{"", unit}, {"d", SECONDS_PER_DAY}, {"h", 3600}, {"m", 60}, {"s", 1}};
    const size_t digits = strspn(text, "0123456789");
    const uint64_t number = digits > 0 && digits <= TIME_DIGITS_MAX ? strtoull(text, NULL, 10) : 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].suffix) == 0) {
            return number * units[i].seconds;
        }
    }
    return 0;
}

uint64_t options_age_s(const char *command, const char *name, const char *text)
{
    const uint64_t age_s = text == NULL ? 0 : parse_time(text, SECONDS_PER_DAY);
    if (text != NULL && age_s == 0) {
        options_wrong(command,
                      "--%s expects a number of days above 0, or a number with a suffix d, h, m or "
                      "s, not '%s'",
                      name, text);
    }
    return age_s;
}

uint64_t options_limit(const char *command, const char *text)
{
    const bool is_number = text == NULL || (text[0] != '0' && text[0] != '\0' &&
                                            text[strspn(text, "0123456789")] == '\0' &&
                                            strlen(text) <= LIMIT_DIGITS_MAX);
    if (!is_number) {
        options_wrong(command, "--limit expects a number above 0, not '%s'", text);
    }
    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

uint64_t options_budget_s(const char *command, const char *text)
{
    const uint64_t budget_s = text == NULL ? 0 : parse_time(text, 1);
    if (text != NULL && budget_s == 0) {
        options_wrong(command,
                      "--budget expects a number of seconds above 0, or a number with a suffix d, "
                      "h, m or s, not '%s'",
                      text);
    }
    return budget_s;
}

/* Sets the environment variable, so that the processes that the tool starts use the file too. */
static void set_key_file(const char *path)
{
    owned char *absolute = absolute_path(path);
    must_succeed(setenv("KILN_SIGNING_KEY_FILE", absolute, 1));
}

static void check_operands(const command_line *line, const char *command)
{
    if (line->operand_count < line->operands_min) {
        /* The first paragraph names the arguments. */
        const int length = (int)(strstr(line->usage, "\n\n") - line->usage);
        fprintf(stderr, "%s: an argument is missing\n%.*s\nTry '%s --help'.\n", command, length,
                line->usage, command);
        end_tool(EXIT_USAGE);
    }
    if (line->operands_max >= 0 && line->operand_count > line->operands_max) {
        options_wrong(command, "unexpected argument '%s'", line->operands[line->operands_max]);
    }
}

void options_read(command_line *line, int argc, char **argv)
{
    struct option table[COMMON_OPTIONS + OPTIONS_MAX + 1];
    fill_table(line, table);
    const char *letters = line->stops_at_operand ? "+h" : "h";
    int option;
    while ((option = getopt_long(argc, argv, letters, table, NULL)) != -1) {
        switch (option) {
        case DIRECTORY:
            line->directory = optarg;
            break;
        case KEY_FILE:
            set_key_file(optarg);
            break;
        case JSON:
            line->json = true;
            break;
        case HELP:
        case 'h':
            fputs(line->usage, stdout);
            end_tool(EXIT_OK);
        case '?':
            fprintf(stderr, "Try '%s --help'.\n", argv[0]);
            end_tool(EXIT_USAGE);
        default:
            set_own(&line->options[option - OWN], optarg);
            break;
        }
    }
    line->operands = argv + optind;
    line->operand_count = argc - optind;
    if (line->directory != NULL && line->directory[0] == '\0') {
        options_wrong(argv[0], "--dir is empty: a directory is expected");
    }
    check_operands(line, argv[0]);
}
