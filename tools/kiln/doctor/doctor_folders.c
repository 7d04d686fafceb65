/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "../folder/place.h"
#include "../folder/setting.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "doctor.h"

static void sort_out(const folder_setting *setting, json_t *kept, json_t *left_out)
{
    for (size_t i = 0; i < setting->count; i++) {
        const folder_cache *cache = &setting->caches[i];
        owned char *reason = folder_reason_against(cache);
        if (reason == NULL) {
            json_push(kept, json_text_or_null(cache->name));
        } else {
            json_add(left_out, cache->name, json_text_or_null(reason));
        }
    }
}

void doctor_examine_folders(examination *doctor)
{
    folder_setting setting = folder_setting_read();
    json_t *kept = must(json_array());
    json_t *left_out = must(json_object());
    if (!setting.is_off && !doctor->config->disabled) {
        sort_out(&setting, kept, left_out);
        owned char *reason = place_reason_against(setting.place);
        if (reason != NULL) {
            doctor_problem(doctor, "no folder of a cache is filled or kept: %s", reason);
        }
    }
    json_t *object = must(json_object());
    json_add(object, "place", json_text_or_null(setting.place));
    json_add(object, "kept", kept);
    json_add(object, "left_out", left_out);
    json_add(doctor->report, "folders", object);
    folder_setting_free(&setting);
}
