/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>

#include "../store/tiers.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"
#include "../text/units.h"
#include "doctor.h"

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text == NULL ? "" : text;
}

static bool is_true(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

/* Takes over @value. */
static void add_row(struct table *table, const char *name, char *value)
{
    table_add_fact(table, name, value);
    free(value);
}

static void add_loader(struct table *table, const json_t *loader)
{
    const json_t *instead_of = json_object_get(loader, "instead_of");
    if (loader != NULL) {
        add_row(table, "loader",
                text_of("%s (%s %s), %s%s%s", member(loader, "path"), member(loader, "kind"),
                        member(loader, "version"),
                        is_true(loader, "layers") ? "supports layers" : "does not support layers",
                        json_is_string(instead_of) ? ", instead of " : "",
                        member(loader, "instead_of")));
    }
}

static void add_layer(struct table *table, const json_t *layer)
{
    if (json_is_string(json_object_get(layer, "path"))) {
        add_row(table, "layer",
                text_of("%s, %s", member(layer, "path"),
                        is_true(layer, "loaded") ? "loaded" : "not loaded"));
    }
}

static void add_nvrtc_layer(struct table *table, const json_t *layer)
{
    if (json_is_string(json_object_get(layer, "path"))) {
        table_add_fact(table, "NVRTC layer", member(layer, "path"));
    }
}

/* Returns a member without const, because jansson's loop macros do not accept a const object. */
static json_t *writable(const json_t *object, const char *name)
{
    return json_object_get(object, name);
}

static void add_variables(struct table *table, const char *title, json_t *variables)
{
    const char *name;
    json_t *value;
    json_object_foreach(variables, name, value)
    {
        if (json_is_string(value)) {
            add_row(table, title, text_of("%s=%s", name, json_string_value(value)));
        }
    }
}

static void add_platforms(struct table *table, const json_t *platforms)
{
    size_t i;
    size_t j;
    json_t *platform;
    json_t *device;
    json_array_foreach(platforms, i, platform)
    {
        add_row(table, "platform",
                text_of("%s, %s", member(platform, "name"), member(platform, "version")));
        json_array_foreach(json_object_get(platform, "devices"), j, device)
        {
            add_row(
                table, "  device",
                text_of("%s, driver %s", member(device, "name"), member(device, "driver_version")));
        }
        add_variables(table, "  in each key", writable(platform, "key_variables"));
        add_row(table, "  in each key",
                text_of("%zu files of the driver (--json lists them)",
                        json_object_size(json_object_get(platform, "driver_files"))));
    }
}

static void add_directory(struct table *table, const json_t *report)
{
    const json_t *directory = json_object_get(report, "directory");
    const json_int_t max_bytes = json_integer_value(json_object_get(report, "max_bytes"));
    char size[UNIT_TEXT_SIZE];
    add_row(table, "directory",
            text_of("%s, %s", member(directory, "path"), member(directory, "state")));
    add_row(table, "size", text_of("%s at most", format_size((uint64_t)max_bytes, size)));
    table_add_fact(table, "signing", is_true(report, "authenticated") ? "on" : "off");
}

static void add_upgrades(struct table *table, const json_t *drivers)
{
    size_t i;
    json_t *driver;
    json_array_foreach(drivers, i, driver)
    {
        const json_int_t programs = json_integer_value(json_object_get(driver, "programs"));
        add_row(table, "upgrade",
                text_of("%s has %lld of the %lld %s of older drivers", member(driver, "driver"),
                        json_integer_value(json_object_get(driver, "ready")), programs,
                        noun_of((uint64_t)programs, "program", "programs")));
    }
}

static void add_tiers(struct table *table, const json_t *tiers)
{
    size_t i;
    json_t *tier;
    json_array_foreach(tiers, i, tier)
    {
        owned char *outage = tier_outage(tier);
        const char *missing = json_string_value(json_object_get(tier, "state"));
        const char *state = missing != NULL ? missing : outage != NULL ? outage : "used";
        add_row(table, "tier", text_of("%s, %s", member(tier, "location"), state));
    }
}

static void print_list(const char *title, const json_t *texts)
{
    size_t i;
    json_t *text;
    printf("%s:%s\n", title, json_array_size(texts) == 0 ? " none" : "");
    json_array_foreach(texts, i, text)
    {
        printf("  ");
        print_name(json_string_value(text));
        putchar('\n');
    }
}

/* Returns @list, or @name if there is no list, with @name at its end; frees @list. */
static char *appended(char *list, const char *name)
{
    char *longer = list == NULL ? text_of("%s", name) : text_of("%s, %s", list, name);
    free(list);
    return longer;
}

static void add_folders(struct table *table, const json_t *folders)
{
    const char *name;
    const json_t *value;
    size_t i;
    owned char *kept = NULL;
    owned char *left_out = NULL;
    json_array_foreach(json_object_get(folders, "kept"), i, value)
    {
        kept = appended(kept, json_string_value(value));
    }
    json_t *reason;
    json_object_foreach(writable(folders, "left_out"), name, reason)
    {
        left_out = appended(left_out, name);
    }
    if (kept != NULL) {
        add_row(table, "folders", text_of("%s, kept in %s", kept, member(folders, "place")));
    }
    if (left_out != NULL) {
        add_row(table, "not kept", text_of("%s (--json says why)", left_out));
    }
}

static void add_python(struct table *table, const json_t *python)
{
    size_t i;
    const json_t *framework;
    if (json_is_string(json_object_get(python, "folder"))) {
        table_add_fact(table, "Python", member(python, "folder"));
    }
    const json_t *frameworks = json_object_get(python, "frameworks");
    json_array_foreach(frameworks, i, framework)
    {
        add_row(table, "  framework",
                text_of("%s %s, %s", member(framework, "name"), member(framework, "version"),
                        is_true(framework, "known") ? "cached" : "not cached"));
    }
}

void doctor_print(const json_t *report)
{
    struct table *table = table_new_facts();
    add_loader(table, json_object_get(report, "loader"));
    add_layer(table, json_object_get(report, "layer"));
    add_nvrtc_layer(table, json_object_get(report, "nvrtc_layer"));
    add_platforms(table, json_object_get(report, "platforms"));
    add_directory(table, report);
    add_tiers(table, json_object_get(report, "tiers"));
    add_upgrades(table, json_object_get(report, "upgrades"));
    add_folders(table, json_object_get(report, "folders"));
    add_python(table, json_object_get(report, "python"));
    add_variables(table, "variable", writable(report, "variables"));
    table_print(table);

    const json_t *notes = json_object_get(report, "notes");
    if (json_array_size(notes) > 0) {
        print_list("notes", notes);
    }
    print_list("problems", json_object_get(report, "problems"));
}
