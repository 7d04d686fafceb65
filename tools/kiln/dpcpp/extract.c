/* SPDX-License-Identifier: Apache-2.0 */
#include "extract.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../output.h"
#include "../tool.h"

static bool copy(const struct byte_source *source, uint64_t offset, uint64_t size, FILE *to)
{
    char piece[16384];
    while (size > 0) {
        size_t count = size < sizeof piece ? (size_t)size : sizeof piece;
        if (!source->read(source->user, offset, piece, count) ||
            fwrite(piece, 1, count, to) != count) {
            return false;
        }
        offset += count;
        size -= count;
    }
    return true;
}

static bool copy_to_new_file(const struct byte_source *source, uint64_t offset, uint64_t size,
                             char *temporary)
{
    int file = mkstemp(temporary);
    if (file < 0) {
        return false;
    }
    mode_t mask = umask(0);
    umask(mask);
    FILE *stream = must(fdopen(file, "wb"));
    bool is_written = copy(source, offset, size, stream);
    is_written = fchmod(file, 0666 & ~mask) == 0 && is_written;
    return fclose(stream) == 0 && is_written;
}

int extract(const struct byte_source *source, uint64_t offset, uint64_t size, const char *path)
{
    if (strcmp(path, "-") == 0) {
        return copy(source, offset, size, stdout) ? EXIT_OK : EXIT_IO;
    }
    char *temporary = text_of("%s.XXXXXX", path);
    int exit_code = EXIT_OK;
    if (!copy_to_new_file(source, offset, size, temporary) || rename(temporary, path) != 0) {
        complain("%s: %s", path, strerror(errno));
        unlink(temporary);
        exit_code = EXIT_IO;
    }
    free(temporary);
    return exit_code;
}
