/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "location.h"

/* Reports variables with wrong values. */
static void report_variables(const kiln_config *config)
{
    for (size_t i = 0; config->warnings[i] != NULL; i++) {
        complain_once(config->warnings[i]);
    }
}

static void warn(void *user, kiln_log_level level, const char *text)
{
    (void)user;
    if (level <= KILN_LOG_WARNING) {
        complain_once(text);
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
        .credentials = directory->config->credentials,
    };
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_store_open(directory->path, &params, &directory->store, &error);
    if (status == KILN_OK || status == KILN_MISS) {
        return EXIT_OK;
    }
    complain_once(error_text(&error, status));
    return exit_code_of(status);
}

static kiln_config *read_config(void)
{
    kiln_config *config = NULL;
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    report_variables(config);
    return config;
}

/* Returns the location that --dir or else the environment names. If there is none, reports that and
 * returns NULL. */
static char *location_of(const char *option, const kiln_config *config)
{
    if (option == NULL && config->dir == NULL) {
        complain("no cache directory: give --dir, or set KILN_DIR or HOME");
        return NULL;
    }
    return option != NULL ? absolute_location(option) : must(strdup(config->dir));
}

static int try_open(const char *option, bool has_key, uint32_t flags,
                    cache_directory *ret_directory)
{
    kiln_config *config = read_config();
    cache_directory opened = {
        .path = location_of(option, config), .config = config, .max_bytes = config->max_bytes};
    if (has_key && config->key_file != NULL) {
        opened.key_file = must(strdup(config->key_file));
    }
    int exit_code = opened.path == NULL ? EXIT_CONFIGURATION : open_store(&opened, flags);
    if (exit_code != EXIT_OK) {
        directory_close(&opened);
        return exit_code;
    }
    *ret_directory = opened;
    return EXIT_OK;
}

int directory_try_open(const char *option, uint32_t flags, cache_directory *ret_directory)
{
    return try_open(option, true, flags, ret_directory);
}

int directory_try_open_without_key(const char *option, uint32_t flags,
                                   cache_directory *ret_directory)
{
    return try_open(option, false, flags, ret_directory);
}

char *directory_location(const char *option)
{
    kiln_config *config = read_config();
    char *location = location_of(option, config);
    kiln_config_free(&config);
    if (location == NULL) {
        end_tool(EXIT_CONFIGURATION);
    }
    return location;
}

cache_directory directory_open(const char *option, uint32_t flags)
{
    cache_directory directory = {0};
    const int exit_code = directory_try_open(option, flags | KILN_STORE_NO_CREATE, &directory);
    if (exit_code != EXIT_OK) {
        end_tool(exit_code);
    }
    if (directory.store == NULL) {
        complain("%s does not exist: nothing is cached there", directory.path);
    }
    return directory;
}

void directory_close(cache_directory *directory)
{
    kiln_store_close(&directory->store);
    free(directory->path);
    free(directory->key_file);
    kiln_config_free(&directory->config);
    directory->path = directory->key_file = NULL;
}
