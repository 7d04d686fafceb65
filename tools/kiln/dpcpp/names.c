/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const endings[SLOT_FILES] = {
    [SLOT_BIN] = ".bin",
    [SLOT_SRC] = ".src",
    [SLOT_STAMP] = "_access_time.txt",
    [SLOT_LOCK] = ".lock",
    [SLOT_STAMP_LOCK] = "_access_time.txt.lock",
};

bool parse_number(const char *text, size_t length, uint64_t *ret_number)
{
    if (length == 0 || (length > 1 && text[0] == '0')) {
        return false;
    }
    uint64_t number = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *ret_number = number;
    return true;
}

bool slot_name_parse(const char *name, uint64_t *ret_number, slot_file *ret_file)
{
    size_t length = strspn(name, "0123456789");
    uint64_t number = SLOT_IR;
    if (length == 0 && strncmp(name, "ir", 2) == 0) {
        length = 2;
    } else if (!parse_number(name, length, &number) || number == SLOT_IR) {
        return false;
    }
    for (int file = 0; file < SLOT_FILES; file++) {
        if (strcmp(name + length, endings[file]) == 0) {
            *ret_number = number;
            *ret_file = file;
            return true;
        }
    }
    return false;
}

void slot_name_format(uint64_t number, slot_file file, char *ret_name)
{
    if (number == SLOT_IR) {
        snprintf(ret_name, SLOT_NAME_SIZE, "ir%s", endings[file]);
    } else {
        snprintf(ret_name, SLOT_NAME_SIZE, "%" PRIu64 "%s", number, endings[file]);
    }
}

bool is_ir_directory_name(const char *name)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-=";
    size_t length = strlen(name);
    return strspn(name, letters) == length &&
           (length == 43 || length == 44 || length == 86 || length == 87 || length == 88);
}
