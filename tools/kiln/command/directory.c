/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <stdlib.h>
#include <string.h>

#include <kiln/config.h>

#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "location.h"

static void report_variables(const kiln_config *config)
{
    const char *complaint;
    for (size_t i = 0; (complaint = config->warnings[i]) != NULL; i++) {
        complain("%s", complaint);
    }
}

static void warn(void *user, kiln_log_level level, const char *text)
{
    (void)user;
    if (level <= KILN_LOG_WARNING) {
        complain("%s", text);
    }
}

static int open_store(cache_directory *directory, uint32_t flags)
{
    kiln_store_params params = {
        .struct_size = sizeof params,
        .max_bytes = directory->max_bytes,
        .flags = flags,
        .log = {.write = warn},
        .key_file = directory->key_file,
    };
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_store_open(directory->path, &params, &directory->store, &error);
    if (status == KILN_OK || status == KILN_MISS) {
        return EXIT_OK;
    }
    complain("%s", error_text(&error, status));
    return exit_code_of(status);
}

static int open_with(const char *option, uint32_t flags, cache_directory *ret_directory)
{
    kiln_config *config = NULL;
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    report_variables(config);
    const char *path = option != NULL ? option : config->dir;
    cache_directory opened = {.max_bytes = config->max_bytes};
    if (path != NULL) {
        opened.path = absolute_location(path);
    }
    if (config->key_file != NULL) {
        opened.key_file = must(strdup(config->key_file));
    }
    kiln_config_free(&config);
    if (opened.path == NULL) {
        complain("no cache directory: give --dir, or set KILN_DIR or HOME");
        return EXIT_CONFIGURATION;
    }
    int exit_code = open_store(&opened, flags);
    if (exit_code != EXIT_OK) {
        directory_close(&opened);
        return exit_code;
    }
    *ret_directory = opened;
    return EXIT_OK;
}

int directory_open_if_exists(const char *option, uint32_t flags, cache_directory *ret_directory)
{
    return open_with(option, flags | KILN_STORE_NO_CREATE, ret_directory);
}

int directory_open(const char *option, uint32_t flags, cache_directory *ret_directory)
{
    const int exit_code = directory_open_if_exists(option, flags, ret_directory);
    if (exit_code == EXIT_OK && ret_directory->store == NULL) {
        complain("%s does not exist: nothing is cached there", ret_directory->path);
    }
    return exit_code;
}

int directory_open_or_create(const char *option, cache_directory *ret_directory)
{
    return open_with(option, 0, ret_directory);
}

void directory_close(cache_directory *directory)
{
    kiln_store_close(&directory->store);
    free(directory->path);
    free(directory->key_file);
    directory->path = directory->key_file = NULL;
}
