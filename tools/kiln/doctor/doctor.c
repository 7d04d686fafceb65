/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "doctor.h"

static void __attribute__((format(printf, 2, 0)))
push_text(json_t *list, const char *format, va_list arguments)
{
    owned char *text = text_of_list(format, arguments);
    json_push(list, json_text_or_null(text));
}

void doctor_problem(examination *doctor, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    push_text(doctor->problems, format, arguments);
    va_end(arguments);
}

void doctor_note(examination *doctor, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    push_text(doctor->notes, format, arguments);
    va_end(arguments);
}

examination doctor_begin(const kiln_config *config, const char *directory)
{
    return (examination){
        .config = config,
        .directory = directory,
        .report = must(json_object()),
        .problems = must(json_array()),
        .notes = must(json_array()),
    };
}

json_t *doctor_end(examination *doctor)
{
    json_add(doctor->report, "notes", doctor->notes);
    json_add(doctor->report, "problems", doctor->problems);
    return doctor->report;
}
