/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads capacities of the constant cache from any value of its variable. The same value without the
 * pieces that are reported as wrong must give the same result.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "face/onednn/constant_environment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void look_at(const kilni_constant_warnings *warnings)
{
    for (size_t i = 0; i < warnings->count && i <= KILNI_CONSTANT_WARNINGS; i++) {
        const char *line = warnings->lines[i];
        size_t length = strnlen(line, KILNI_CONSTANT_WARNING_SIZE);
        require(length > 0 && length < KILNI_CONSTANT_WARNING_SIZE);
        require(strncmp(line, KILNI_CONSTANT_VARIABLE, strlen(KILNI_CONSTANT_VARIABLE)) == 0);
        for (size_t j = 0; j < length; j++) {
            require((unsigned char)line[j] >= 0x20 && line[j] != 0x7f);
        }
    }
}

static kilni_constant_warnings read_value(const char *value, kilni_constant_limits *kinds)
{
    kilni_constant_warnings warnings = {0};
    for (size_t i = 0; i < KILNI_CONSTANT_KINDS; i++) {
        kinds[i] = (kilni_constant_limits){KILN_UNLIMITED, KILN_POLICY_NO_EVICT};
    }
    kilni_constant_environment_read(value, kinds, &warnings);
    for (size_t i = 0; i < KILNI_CONSTANT_KINDS; i++) {
        require(kiln_policy_name(kinds[i].policy) != NULL);
    }
    return warnings;
}

/* Leaves out each piece that is reported as wrong when it stands alone. */
static void leave_out(char *value)
{
    for (char *piece = value; *piece;) {
        size_t length = strcspn(piece, ";");
        char behind = piece[length];
        piece[length] = '\0';
        kilni_constant_limits kinds[KILNI_CONSTANT_KINDS];
        if (read_value(piece, kinds).count > 0) {
            memset(piece, ';', length);
        }
        piece[length] = behind;
        piece += length + (behind != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *value = calloc(1, size + 1);
    if (!value) {
        return 0;
    }
    memcpy(value, data, size);
    kilni_constant_limits kinds[KILNI_CONSTANT_KINDS];
    kilni_constant_limits same[KILNI_CONSTANT_KINDS];
    kilni_constant_warnings warnings = read_value(value, kinds);
    look_at(&warnings);
    leave_out(value);
    warnings = read_value(value, same);
    require(warnings.count == 0);
    for (size_t i = 0; i < KILNI_CONSTANT_KINDS; i++) {
        require(kilni_constant_limits_equal(kinds[i], same[i]));
    }
    free(value);
    return 0;
}
