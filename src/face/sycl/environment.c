/* SPDX-License-Identifier: Apache-2.0
 *
 * Profile sycl. Reads the variables of the DPC++ runtime's caches. docs/configuration.md lists the
 * defaults, and says which of them differ from the runtime's. If a value is wrong, Kiln uses the
 * default and adds a warning, even if the runtime would silently use some other value.
 */
#include "base/size.h"
#include "face/environment/config.h"

#define DAY_S UINT64_C(86400)
#define MAX_DAYS 36500u

static const kilni_dir_candidate candidates[] = {
    {"SYCL_CACHE_DIR", "", false},
    {"XDG_CACHE_HOME", "/libsycl_cache", false},
    {"HOME", "/.cache/libsycl_cache", false},
};

static void read_disk(kilni_config_reader *reader)
{
    kilni_config *config = reader->config;
    kiln_store_params *store = &config->store;
    store->layout = "sycl";
    store->policy = KILN_POLICY_LRU;
    kilni_config_read_switch(reader, "SYCL_CACHE_PERSISTENT", &config->is_persistent);
    kilni_config_read_dir(reader, candidates, sizeof candidates / sizeof candidates[0], NULL);

    store->max_bytes = UINT64_C(8) << 30;
    kilni_config_read_size(reader, "SYCL_CACHE_MAX_SIZE", "8G is used", &store->max_bytes);
    uint64_t days = 7;
    kilni_config_read_number(reader, "SYCL_CACHE_THRESHOLD", "days", MAX_DAYS, &days);
    store->max_age_s = days * DAY_S;
    int has_no_eviction = 0;
    kilni_config_read_switch(reader, "SYCL_CACHE_EVICTION_DISABLE", &has_no_eviction);
    if (has_no_eviction) {
        store->max_age_s = 0;
    }
    if (has_no_eviction || store->max_bytes == 0) {
        store->max_bytes = KILN_UNLIMITED;
    }
}

static void read_image_sizes(kilni_config_reader *reader)
{
    kiln_config *config = &reader->config->shown;
    kilni_config_read_size(reader, "SYCL_CACHE_MIN_DEVICE_IMAGE_SIZE", "0 is used",
                           &config->min_image_bytes);
    config->max_image_bytes = UINT64_C(1) << 30;
    kilni_config_read_size(reader, "SYCL_CACHE_MAX_DEVICE_IMAGE_SIZE", "1G is used",
                           &config->max_image_bytes);
    if (config->max_image_bytes == 0) {
        config->max_image_bytes = KILN_UNLIMITED;
    }
}

/* A threshold of 0 means no limit. If the variable is not set, memory is limited. */
static void read_memory(kilni_config_reader *reader)
{
    kiln_cache_params *memory = &reader->config->memory;
    memory->policy = KILN_POLICY_LRU;
    memory->flags = KILN_CACHE_RETAIN_FAILURES;
    int in_memory = 1;
    kilni_config_read_switch(reader, "SYCL_CACHE_IN_MEM", &in_memory);
    if (!in_memory) {
        memory->flags |= KILN_CACHE_DISABLED;
    }
    static const char threshold[] = "SYCL_IN_MEM_CACHE_EVICTION_THRESHOLD";
    const char *value = kilni_config_value(reader, threshold);
    kilni_config_read_size(reader, threshold, "256M is used", &memory->max_bytes);
    uint64_t read = 0;
    if (value && kilni_size_parse(value, &read) == KILN_OK && read == 0) {
        memory->max_bytes = KILN_UNLIMITED;
        memory->max_entries = KILN_UNLIMITED;
    }
}

static void read_build_options(kilni_config_reader *reader)
{
    kilni_config *config = reader->config;
    config->keeps_images_only = true;
    kilni_config_read_text(reader, "SYCL_PROGRAM_COMPILE_OPTIONS", &config->compile_options);
    kilni_config_read_text(reader, "SYCL_PROGRAM_LINK_OPTIONS", &config->link_options);
    kilni_config_read_text(reader, "SYCL_PROGRAM_APPEND_COMPILE_OPTIONS",
                           &config->appended_compile);
    kilni_config_read_text(reader, "SYCL_PROGRAM_APPEND_LINK_OPTIONS", &config->appended_link);
}

static void read_trace(kilni_config_reader *reader)
{
    uint64_t events = 0;
    kilni_config_read_number(reader, "SYCL_CACHE_TRACE", "events added up", KILN_TRACE_ALL,
                             &events);
    reader->config->shown.trace_events = (uint32_t)events;
}

/* This variable has no effect, as in the runtime. Because a user who sets it expects an effect, it
 * causes a warning. */
static void read_deprecated(kilni_config_reader *reader)
{
    static const char name[] = "SYCL_CACHE_DISABLE_PERSISTENT";
    const char *value = kilni_config_value(reader, name);
    if (value) {
        kilni_config_warn(reader, name, value, "no longer has any effect",
                          "SYCL_CACHE_PERSISTENT decides");
    }
}

void kilni_config_read_sycl(kilni_config_reader *reader)
{
    read_disk(reader);
    read_image_sizes(reader);
    read_memory(reader);
    read_build_options(reader);
    read_trace(reader);
    read_deprecated(reader);
}
