/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as the list of a folder. A list that is read can be written, and is then the same
 * text; each of its paths stays below the folder.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/kiln/folder/file_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void check_path(const char *path)
{
    require(path[0] != '/' && path[0] != '\0' && strstr(path, "//") == NULL);
    require(strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0);
    require(strstr(path, "/../") == NULL && strlen(path) <= FILE_PATH_MAX);
    const size_t length = strlen(path);
    require(path[length - 1] != '/' && (length < 3 || strcmp(path + length - 3, "/..") != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    file_list list;
    if (!file_list_from_text((const char *)data, size, &list)) {
        return 0;
    }
    for (size_t i = 0; i < list.count; i++) {
        check_path(list.files[i].path);
        require(file_list_find(&list, list.files[i].path) == &list.files[i]);
    }
    char *text = file_list_to_text(&list, true);
    require(strlen(text) == size && memcmp(text, data, size) == 0);
    free(text);
    file_list_free(&list);
    return 0;
}
