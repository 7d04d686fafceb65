/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a configuration from any values, in each profile. The input consists of "NAME=value" items,
 * separated by the bytes 0 and 0xff. A value may hold any byte except zero.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/config.h>
#include <kiln/persistent.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

/* @user is a sequence of strings, each with a terminating zero; an empty string ends it. */
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

/* Returns whether a text begins with one of these prefixes. */
static int begins_with_any(const char *text, const char *const *beginnings)
{
    for (; *beginnings; beginnings++) {
        if (strncmp(text, *beginnings, strlen(*beginnings)) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Returns whether a location is absolute, chosen by Kiln, or on a server. A URL has one slash or
 * three after "file:"; two slashes would introduce a host. */
static int is_place(const char *dir)
{
    static const char *const places[] = {"/",
                                         KILN_PERSISTENT_DEFAULT_DIR,
                                         "file:///",
                                         "pack:/",
                                         "redis://",
                                         "rediss://",
                                         "redis+unix:/",
                                         "redis-cluster://",
                                         "rediss-cluster://",
                                         "http://",
                                         "https://",
                                         "s3://",
                                         NULL};
    return begins_with_any(dir, places) || (strncmp(dir, "file:/", 6) == 0 && dir[6] != '/');
}

static void look_at_store(const kiln_config *config)
{
    const char *dir = config->dir, *location = config->location;
    require(!dir || is_place(dir));
    require(!location || (location == dir && !config->disabled));
    kiln_store_params store;
    store.struct_size = sizeof store;
    require(kiln_config_get_store(config, &store) == KILN_OK);
    require(!location || store.max_bytes > 0);
    require(store.policy <= KILN_POLICY_NO_EVICT);
}

static void look_at_memory(const kiln_config *config)
{
    kiln_cache_params memory;
    memory.struct_size = sizeof memory;
    require(kiln_config_get_memory(config, &memory) == KILN_OK);
    kiln_cache *cache = NULL;
    if (kiln_cache_new(&memory, &cache) != KILN_E_NO_MEMORY) {
        require(cache != NULL);
    }
    kiln_cache_free(&cache);
}

static void look_at(const kiln_config *config)
{
    static const char *const families[] = {"KILN_",   "XDG_",  "HOME=", "SYCL_",
                                           "ONEDNN_", "DNNL_", NULL};
    look_at_store(config);
    look_at_memory(config);
    require(config->trace_events <= KILN_TRACE_ALL);
    require((unsigned)config->readonly <= 1);
    require((unsigned)config->disabled <= 1);
    const char *text;
    for (size_t i = 0; (text = config->key_variables[i]); i++) {
        size_t length = strcspn(text, "*");
        require(length > 0 && (text[length] == '\0' || text[length + 1] == '\0'));
    }
    for (size_t i = 0; (text = config->warnings[i]); i++) {
        require_printable(text);
        require(begins_with_any(text, families));
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
        /* Two zeros in a row would end the sequence. */
        if (byte != '\0' || (length > 0 && environment[length - 1] != '\0')) {
            environment[length++] = byte;
        }
    }
    for (uint32_t profile = 0; kiln_profile_name(profile); profile++) {
        kiln_config *config = NULL;
        if (kiln_config_from_profile(profile, look_up, environment, &config) == KILN_OK) {
            look_at(config);
            kiln_config_free(&config);
        }
    }
    free(environment);
    return 0;
}
