/* SPDX-License-Identifier: Apache-2.0 */
#include "missing_files.h"

#include <stdlib.h>
#include <string.h>

#include "../text/memory.h"
#include "recreate.h"

void missing_files_add(missing_files *missing, const kiln_read *read, kiln_entry *content)
{
    missing->items =
        array_grown(missing->items, missing->count, &missing->capacity, sizeof *missing->items);
    missing->items[missing->count++] = (missing_file){.path = must(strdup(read->path)),
                                                      .is_of_program = read->relative_to_program,
                                                      .content = content};
}

static void recreate_any_folder(const char *path, char *const *protected)
{
    owned char *why = recreate_folder(path, protected);
    (void)why;
}

char *missing_files_recreate(const missing_files *missing, const char *program_folder,
                             bool has_program_folder, const char *working_folder,
                             char *const *protected)
{
    char *why = NULL;
    if (has_program_folder) {
        recreate_any_folder(program_folder, protected);
    }
    recreate_any_folder(working_folder, protected);
    for (size_t i = 0; why == NULL && i < missing->count; i++) {
        const missing_file *file = &missing->items[i];
        const kiln_bytes content = kiln_entry_payload(file->content);
        owned char *path =
            file->path[0] == '/'
                ? must(strdup(file->path))
                : text_of("%s/%s", file->is_of_program ? program_folder : working_folder,
                          file->path);
        if (file->content == NULL) {
            recreate_any_folder(path, protected);
        } else {
            why = recreate_file(path, content.data, content.size, protected);
        }
    }
    return why;
}
