/* SPDX-License-Identifier: Apache-2.0 */
#include "device_lists.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include <kiln/config.h>

#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"

/* ---- making a list ---- */

/* Returns true if the servers could be asked. A time that is too early would make a different
 * machine remove entries that are in use. */
static bool are_complete(const device_uses *uses)
{
    for (size_t i = 0; i < uses->count; i++) {
        const kiln_status record = uses->uses[i].record;
        if (record != KILN_OK && record != KILN_MISS && record != KILN_E_UNSUPPORTED) {
            return false;
        }
    }
    return true;
}

static int print(const kiln_entry *list)
{
    const kiln_bytes bytes = kiln_entry_encoding(list);
    return fwrite(bytes.data, 1, bytes.size, stdout) == bytes.size && fflush(stdout) == 0 ? EXIT_OK
                                                                                          : EXIT_IO;
}

static int make_and_print(const device_uses *uses, const char *secret_key_file, uint64_t valid_s)
{
    kiln_entry *list = NULL;
    kiln_error error = {.struct_size = sizeof error};
    owned kiln_device_use *listed = must(calloc(uses->count + 1, sizeof *listed));
    for (size_t i = 0; i < uses->count; i++) {
        listed[i] = (kiln_device_use){uses->uses[i].device, uses->uses[i].last_s};
    }
    const kiln_status status =
        kiln_device_list_make(listed, uses->count, secret_key_file, valid_s, &list, &error);
    if (status != KILN_OK) {
        complain("%s", error_text(&error, status));
        return exit_code_of(status);
    }
    const int exit_code = print(list);
    kiln_entry_release(&list);
    return exit_code;
}

int device_lists_print(const device_uses *uses, uint64_t valid_s)
{
    kiln_config *config = NULL;
    int exit_code = EXIT_CONFIGURATION;
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    if (!are_complete(uses)) {
        exit_code = EXIT_IO;
    } else if (config->credentials->secret_key_file == NULL) {
        complain("nothing says with which key to sign: set KILN_SECRET_KEY_FILE");
    } else {
        exit_code = make_and_print(uses, config->credentials->secret_key_file, valid_s);
    }
    kiln_config_free(&config);
    return exit_code;
}

/* ---- reading lists ---- */

static int add_use(void *user, const kiln_device_use *use)
{
    known_use *known = device_uses_find(user, use->device);
    if (known != NULL) {
        known->last_s = use->last_s > known->last_s ? use->last_s : known->last_s;
        known->record = known->record == KILN_MISS ? KILN_OK : known->record;
    }
    return 0;
}

static kiln_status add_list(const char *path, const kiln_config *config, device_uses *uses)
{
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status =
        kiln_device_list_read(path, config->credentials, add_use, uses, &error);
    if (status != KILN_OK) {
        complain("%s", error_text(&error, status));
    }
    return status;
}

static kiln_status add_folder(const char *path, DIR *folder, const kiln_config *config,
                              device_uses *uses)
{
    kiln_status status = KILN_OK;
    for (const struct dirent *found; status == KILN_OK && (found = readdir(folder)) != NULL;) {
        if (found->d_name[0] != '.') {
            owned char *list = text_of("%s/%s", path, found->d_name);
            status = add_list(list, config, uses);
        }
    }
    return status;
}

kiln_status device_lists_add(const char *path, device_uses *uses)
{
    kiln_config *config = NULL;
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    for (size_t i = 0; i < uses->count; i++) {
        if (uses->uses[i].record == KILN_E_UNSUPPORTED) {
            uses->uses[i].record = KILN_MISS;
        }
    }
    DIR *folder = opendir(path);
    const kiln_status status =
        folder != NULL ? add_folder(path, folder, config, uses) : add_list(path, config, uses);
    if (folder != NULL) {
        closedir(folder);
    }
    kiln_config_free(&config);
    return status;
}
