/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

char *kilni_nvrtc_log_copy(const kilni_nvrtc_functions *nvrtc, kilni_nvrtc_program program)
{
    size_t size = 0;
    nvrtc->size[KILNI_NVRTC_LOG](program, &size);
    char *log = calloc(1, size + 1);
    if (log && size > 0) {
        nvrtc->get[KILNI_NVRTC_LOG](program, log);
    }
    return log;
}

void kilni_nvrtc_name_header_folder(char name[KILNI_NVRTC_HEADER_FOLDER_SIZE])
{
    snprintf(name, KILNI_NVRTC_HEADER_FOLDER_SIZE, "/__nvrtc_auto_pch_%ld_", (long)getpid());
}

char *kilni_nvrtc_log_find_header(const char *log, const char *name, const char *action)
{
    kilni_text message = {0};
    char *path = NULL;
    if (kilni_text_printf(&message, "\"%s\": %s precompiled header file \"",
                          name && *name ? name : "default_program", action) == KILN_OK) {
        const char *at = log;
        while (at && strncmp(at, message.bytes, message.length) != 0) {
            at = strchr(at, '\n');
            at = at ? at + 1 : NULL;
        }
        path = at ? strndup(at + message.length, strcspn(at + message.length, "\"\n")) : NULL;
    }
    kilni_text_done(&message);
    return path;
}

/* Removes the part of a text from @from to @to. */
static void cut(char *from, const char *to)
{
    memmove(from, to, strlen(to) + 1);
}

/* Returns where the line, and the empty lines after it, end. */
static const char *end_of_line(const char *line)
{
    const char *end = line + strcspn(line, "\n");
    return end + strspn(end, "\n");
}

bool kilni_nvrtc_log_remove_headers(char *log)
{
    static const char remark[] = "Remark: The warnings can be suppressed with ";
    char own[KILNI_NVRTC_HEADER_FOLDER_SIZE];
    char *folder;
    bool any = false;
    kilni_nvrtc_name_header_folder(own);
    while ((folder = strstr(log, own)) != NULL) {
        char *line = folder;
        while (line > log && line[-1] != '\n') {
            line--;
        }
        cut(line, end_of_line(folder));
        any = true;
    }
    /* The remark follows the first warning. */
    if (any && strncmp(log, remark, sizeof remark - 1) == 0 && *end_of_line(log) == '\0') {
        *log = '\0';
    }
    return any;
}
