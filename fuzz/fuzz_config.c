/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a configuration from any values: the input is lines of "NAME=value", as a value may hold
 * any byte but zero, with the bytes 0 and 0xff between them.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/config.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

/* @user is a run of strings, each with its closing zero; an empty one ends it. */
static const char *look_up(void *user, const char *name)
{
    size_t length = strlen(name);
    for (const char *each = user; *each; each += strlen(each) + 1) {
        if (strncmp(each, name, length) == 0 && each[length] == '=') {
            return each + length + 1;
        }
    }
    return NULL;
}

static void require_printable(const char *line)
{
    for (; *line; line++) {
        require((unsigned char)*line >= 0x20 && *line != 0x7f);
    }
}

static void look_at(const kiln_config *config)
{
    const char *dir = kiln_config_dir(config);
    require(!dir || *dir == '/' || strncmp(dir, "file:///", 8) == 0 ||
            strncmp(dir, "pack:/", 6) == 0);
    require((unsigned)kiln_config_readonly(config) <= 1);
    require((unsigned)kiln_config_disabled(config) <= 1);
    const char *text;
    for (size_t i = 0; (text = kiln_config_key_variable(config, i)); i++) {
        size_t length = strcspn(text, "*");
        require(length > 0 && (text[length] == '\0' || text[length + 1] == '\0'));
    }
    for (size_t i = 0; (text = kiln_config_complaint(config, i)); i++) {
        require_printable(text);
        require(strncmp(text, "KILN_", 5) == 0 || strncmp(text, "XDG_", 4) == 0 ||
                strncmp(text, "HOME", 4) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *environment = calloc(1, size + 2);
    if (!environment) {
        return 0;
    }
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        char byte = data[i] == 0xff ? '\0' : (char)data[i];
        /* Two zeros in a row would end the run. */
        if (byte != '\0' || (length > 0 && environment[length - 1] != '\0')) {
            environment[length++] = byte;
        }
    }
    kiln_config *config = NULL;
    if (kiln_config_from_env(look_up, environment, &config) == KILN_OK) {
        look_at(config);
        kiln_config_free(&config);
    }
    free(environment);
    return 0;
}
