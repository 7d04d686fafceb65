/* SPDX-License-Identifier: Apache-2.0 */
#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exit_code.h"
#include "memory.h"
#include "output.h"

static int complain_of(const char *path, int error)
{
    complain("%s: %s", path, strerror(error));
    return EXIT_IO;
}

static bool is_stdout(const struct stat *facts)
{
    struct stat own;
    return fstat(STDOUT_FILENO, &own) == 0 && own.st_dev == facts->st_dev &&
           own.st_ino == facts->st_ino;
}

/* Opens a file that is not a regular file, such as a device. It is written to directly. */
static int begin_in_place(const char *path, output_file *ret_file)
{
    int descriptor = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) {
        return complain_of(path, errno);
    }
    *ret_file = (output_file){.stream = must(fdopen(descriptor, "wb")), .path = path};
    return EXIT_OK;
}

/* Takes over @target. */
static int begin_beside(const char *path, char *target, output_file *ret_file)
{
    char *temporary = text_of("%s.XXXXXX", target);
    int descriptor = mkostemp(temporary, O_CLOEXEC);
    if (descriptor < 0) {
        int exit_code = complain_of(path, errno);
        free(temporary);
        free(target);
        return exit_code;
    }
    *ret_file = (output_file){.stream = must(fdopen(descriptor, "wb")),
                              .path = path,
                              .target = target,
                              .temporary = temporary};
    return EXIT_OK;
}

static int begin_new(const char *path, output_file *ret_file)
{
    struct stat link;
    if (lstat(path, &link) == 0) {
        complain("%s: the link's target does not exist", path);
        return EXIT_IO;
    }
    return begin_beside(path, must(strdup(path)), ret_file);
}

int output_file_begin(const char *path, output_file *ret_file)
{
    struct stat facts;
    const bool is_dash = strcmp(path, "-") == 0;
    const int error = is_dash || stat(path, &facts) == 0 ? 0 : errno;
    if (is_dash || (error == 0 && is_stdout(&facts))) {
        *ret_file = (output_file){.stream = stdout, .path = path};
        return EXIT_OK;
    }
    if (error != 0) {
        return error == ENOENT ? begin_new(path, ret_file) : complain_of(path, error);
    }
    if (!S_ISREG(facts.st_mode)) {
        return begin_in_place(path, ret_file);
    }
    char *target = realpath(path, NULL);
    return target == NULL ? complain_of(path, errno) : begin_beside(path, target, ret_file);
}

/* Sets the mode that a file usually gets when a program creates it. */
static bool set_usual_mode(FILE *stream)
{
    mode_t mask = umask(0);
    umask(mask);
    return fchmod(fileno(stream), 0666 & ~mask) == 0;
}

/* Returns 0, or an errno. */
static int publish(output_file *file)
{
    const bool is_replacing = file->target != NULL;
    bool is_written = fflush(file->stream) == 0 && (!is_replacing || set_usual_mode(file->stream));
    int error = is_written ? 0 : errno;
    if (fclose(file->stream) != 0 && is_written) {
        return errno;
    }
    if (is_written && is_replacing && rename(file->temporary, file->target) != 0) {
        error = errno;
    }
    return error;
}

int output_file_end(output_file *file, bool is_complete)
{
    int exit_code = is_complete ? EXIT_OK : EXIT_IO;
    if (file->stream == stdout) {
        return exit_code; /* main reports errors of stdout at the end */
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
    if (exit_code != EXIT_OK && file->temporary != NULL) {
        unlink(file->temporary);
    }
    free(file->temporary);
    free(file->target);
    return exit_code;
}
