/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../text/memory.h"

static bool file_gives_privileges(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && ((status.st_mode & (S_ISUID | S_ISGID)) != 0 ||
                                        getxattr(path, "security.capability", NULL, 0) > 0);
}

/* Returns the file that execvp would execute; the caller frees it. NULL if there is none. */
static char *file_of(const char *program)
{
    const char *path = getenv("PATH");
    if (strchr(program, '/') != NULL || path == NULL) {
        return must(strdup(program));
    }
    owned char *folders = must(strdup(path));
    char *rest = folders;
    for (char *folder; (folder = strsep(&rest, ":")) != NULL;) {
        char *file = text_of("%s/%s", folder[0] == '\0' ? "." : folder, program);
        if (access(file, X_OK) == 0) {
            return file;
        }
        free(file);
    }
    return NULL;
}

bool program_gains_privileges(const char *program)
{
    owned char *file = file_of(program);
    return file != NULL && file_gives_privileges(file);
}
