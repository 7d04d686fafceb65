/* SPDX-License-Identifier: Apache-2.0 */
#include "output_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "tool.h"

static int complain_of(const char *path, int error)
{
    complain("%s: %s", path, strerror(error));
    return EXIT_IO;
}

int output_file_begin(const char *path, struct output_file *ret_file)
{
    if (strcmp(path, "-") == 0) {
        *ret_file = (struct output_file){.stream = stdout, .path = path};
        return EXIT_OK;
    }
    char *temporary = text_of("%s.XXXXXX", path);
    int descriptor = mkstemp(temporary);
    if (descriptor < 0) {
        free(temporary);
        return complain_of(path, errno);
    }
    *ret_file = (struct output_file){
        .stream = must(fdopen(descriptor, "wb")), .path = path, .temporary = temporary};
    return EXIT_OK;
}

/* The mode that any program would give it. */
static bool set_usual_mode(FILE *stream)
{
    mode_t mask = umask(0);
    umask(mask);
    return fchmod(fileno(stream), 0666 & ~mask) == 0;
}

/* Returns 0, or an error number. */
static int publish(struct output_file *file)
{
    bool is_written = fflush(file->stream) == 0 && set_usual_mode(file->stream);
    int error = is_written ? 0 : errno;
    if (fclose(file->stream) != 0 && is_written) {
        return errno;
    }
    if (is_written && rename(file->temporary, file->path) != 0) {
        error = errno;
    }
    return error;
}

int output_file_end(struct output_file *file, bool is_complete)
{
    int exit_code = is_complete ? EXIT_OK : EXIT_IO;
    if (file->temporary == NULL) {
        return exit_code; /* what stdout did not take is named at the end */
    }
    int error = 0;
    if (is_complete) {
        error = publish(file);
    } else {
        fclose(file->stream);
    }
    if (error != 0) {
        exit_code = complain_of(file->path, error);
    }
    if (exit_code != EXIT_OK) {
        unlink(file->temporary);
    }
    free(file->temporary);
    return exit_code;
}
