/* SPDX-License-Identifier: Apache-2.0 */
#include "setting.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../text/memory.h"
#include "../text/output.h"

#define VARIABLE "KILN_FOLDERS"

/* A place has a socket, and the path of a socket is short. */
#define PLACE_MAX 80

#define NAME_MAX_LENGTH 64

#define OWN_BYTES_MAX ((uint64_t)1 << 30)

static bool is_name(const char *text)
{
    const char *allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    return text[0] > '9' && strspn(text, allowed) == strlen(text) &&
           strlen(text) <= NAME_MAX_LENGTH;
}

static void add_own(folder_setting *setting, char *name)
{
    setting->own_names[setting->count - folder_cache_count] = name;
    setting->caches[setting->count++] = (folder_cache){
        .name = name,
        .variables = {name},
        .update = FOLDER_AS_A_WHOLE,
        .identity = IDENTITY_PATH | IDENTITY_HOST | IDENTITY_NVIDIA | IDENTITY_TOOLKIT,
        .max_bytes = OWN_BYTES_MAX,
    };
}

static void read_item(folder_setting *setting, const char *item)
{
    if (strcmp(item, "0") == 0) {
        setting->is_off = true;
    } else if (item[0] == '/' && strlen(item) <= PLACE_MAX && strchr(item, ':') == NULL) {
        free(setting->place);
        setting->place = must(strdup(item));
    } else if (is_name(item) && setting->count < folder_cache_count + FOLDERS_OWN_MAX) {
        add_own(setting, must(strdup(item)));
    } else {
        complain(VARIABLE ": '%s' is ignored: expected 0, an absolute path of at most %d bytes "
                          "without ':', or the name of a variable",
                 item, PLACE_MAX);
    }
}

folder_setting folder_setting_read(void)
{
    folder_setting setting = {
        .place = text_of("/tmp/kiln-folders-%u", (unsigned)geteuid()),
        .caches = must(calloc(folder_cache_count + FOLDERS_OWN_MAX, sizeof *setting.caches)),
        .count = folder_cache_count,
    };
    memcpy(setting.caches, folder_caches, folder_cache_count * sizeof *folder_caches);
    const char *value = getenv(VARIABLE);
    owned char *items = must(strdup(value == NULL ? "" : value));
    char *rest = NULL;
    for (const char *item = strtok_r(items, ",", &rest); item != NULL;
         item = strtok_r(NULL, ",", &rest)) {
        read_item(&setting, item);
    }
    return setting;
}

void folder_setting_free(folder_setting *setting)
{
    for (size_t i = 0; i < FOLDERS_OWN_MAX; i++) {
        free(setting->own_names[i]);
    }
    free(setting->caches);
    free(setting->place);
    *setting = (folder_setting){0};
}

char *folder_reason_against(const folder_cache *cache)
{
    if (cache->update == FOLDER_LEFT_OUT) {
        return must(strdup(cache->why));
    }
    for (size_t i = 0; i < FOLDER_NAMES_MAX && cache->variables[i] != NULL; i++) {
        if (getenv(cache->variables[i]) != NULL) {
            return text_of("%s is set", cache->variables[i]);
        }
    }
    return cache->needs != NULL && access(cache->needs, F_OK) != 0
               ? text_of("there is no %s", cache->needs)
               : NULL;
}

char *folder_path(const folder_setting *setting, const folder_cache *cache)
{
    return text_of("%s/%s", setting->place, cache->name);
}
