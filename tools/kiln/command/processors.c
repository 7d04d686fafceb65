/* SPDX-License-Identifier: Apache-2.0 */
#include "processors.h"

#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../text/memory.h"

#define CONTROL_GROUPS "/sys/fs/cgroup"

static unsigned in_affinity(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return (unsigned)CPU_COUNT(&set);
    }
    const long processors = sysconf(_SC_NPROCESSORS_ONLN); /* more than a cpu_set_t has */
    return processors < 1 ? 1 : (unsigned)processors;
}

/* Returns how many processors a control group gets time for, rounded up; @otherwise if it has no
 * limit. The file has a time and a period in microseconds, or "max" in place of the time. */
static unsigned in_control_group(const char *folder, unsigned otherwise)
{
    owned char *path = text_of("%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    uint64_t time = 0, period = 0;
    if (file == NULL) {
        return otherwise;
    }
    const int count = fscanf(file, "%" SCNu64 " %" SCNu64, &time, &period);
    fclose(file);
    if (count != 2 || time == 0 || period == 0 || time / period >= otherwise) {
        return otherwise;
    }
    return (unsigned)(time / period + (time % period > 0));
}

/* Returns the path of this process's control group; NULL: there is none of version 2. The caller
 * frees it. */
static char *own_control_group(void)
{
    char line[4096];
    char *path = NULL;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && path == NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "0::/", strlen("0::/")) == 0) {
            line[strcspn(line, "\n")] = '\0';
            path = text_of(CONTROL_GROUPS "%s", line + strlen("0::"));
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return path;
}

unsigned processors_available(void)
{
    unsigned count = in_affinity();
    owned char *group = own_control_group();
    /* The limits of the groups above hold, too. */
    while (group != NULL && strlen(group) >= strlen(CONTROL_GROUPS)) {
        count = in_control_group(group, count);
        *strrchr(group, '/') = '\0';
    }
    return count < 1 ? 1 : count;
}
