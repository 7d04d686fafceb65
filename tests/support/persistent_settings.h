/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes single settings of kiln/persistent.h.
 */
#pragma once

#include <string.h>

#include <kiln/persistent.h>

static inline kiln_status persistent_set_enabled(uint32_t kind, int32_t enable)
{
    const kiln_persistent_settings settings = {
        .struct_size = sizeof settings,
        .changed = kind == KILN_ENGINE_CPU ? KILN_PERSISTENT_CPU : KILN_PERSISTENT_GPU,
        .cpu = enable,
        .gpu = enable};
    return kiln_persistent_set(&settings);
}

static inline kiln_status persistent_set_capacity(int32_t capacity_mib)
{
    const kiln_persistent_settings settings = {.struct_size = sizeof settings,
                                               .changed = KILN_PERSISTENT_CAPACITY,
                                               .capacity_mib = capacity_mib};
    return kiln_persistent_set(&settings);
}

static inline kiln_status persistent_set_dir(const char *dir)
{
    const kiln_persistent_settings settings = {
        .struct_size = sizeof settings, .changed = KILN_PERSISTENT_DIR, .dir = dir};
    return kiln_persistent_set(&settings);
}

static inline kiln_status persistent_set_backend(const char *backend)
{
    const kiln_persistent_settings settings = {
        .struct_size = sizeof settings, .changed = KILN_PERSISTENT_BACKEND, .backend = backend};
    return kiln_persistent_set(&settings);
}

static inline kiln_status persistent_set_policy(uint32_t policy)
{
    const kiln_persistent_settings settings = {
        .struct_size = sizeof settings, .changed = KILN_PERSISTENT_POLICY, .policy = policy};
    return kiln_persistent_set(&settings);
}

static inline kiln_status persistent_set_log(const kiln_log *log)
{
    const kiln_persistent_settings settings = {.struct_size = sizeof settings,
                                               .changed = KILN_PERSISTENT_LOG,
                                               .log = log ? *log : (kiln_log){0}};
    return kiln_persistent_set(&settings);
}

/* Returns all settings except texts. */
static inline kiln_persistent_settings persistent_get(void)
{
    kiln_persistent_settings settings = {.struct_size = sizeof settings};
    const kiln_status status = kiln_persistent_get_settings(&settings, NULL, NULL);
    return status == KILN_OK ? settings : (kiln_persistent_settings){0};
}
