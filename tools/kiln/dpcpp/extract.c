/* SPDX-License-Identifier: Apache-2.0 */
#include "extract.h"

#include <errno.h>
#include <string.h>

#include "../text/exit_code.h"
#include "../text/output.h"
#include "../text/output_file.h"

/* Returns false after reporting an error. */
static bool copy(const byte_source *source, uint64_t offset, uint64_t size, const output_file *to)
{
    char piece[16384];
    while (size > 0) {
        size_t count = size < sizeof piece ? (size_t)size : sizeof piece;
        if (!source->read(source->user, offset, piece, count)) {
            complain("the item can't be read, or was changed meanwhile");
            return false;
        }
        if (fwrite(piece, 1, count, to->stream) != count) {
            complain("%s: %s", to->path, strerror(errno));
            return false;
        }
        offset += count;
        size -= count;
    }
    return true;
}

int extract(const byte_source *source, uint64_t offset, uint64_t size, const char *path)
{
    output_file file;
    int exit_code = output_file_begin(path, &file);
    return exit_code != EXIT_OK ? exit_code
                                : output_file_end(&file, copy(source, offset, size, &file));
}
