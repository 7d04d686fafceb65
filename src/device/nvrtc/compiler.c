/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/compiler.h"

#include <stddef.h>

/* Options that measure time, and options for precompiled headers. */
#define UNKEPT_OPTIONS "time", "fdevice-time-trace", "create-pch", "use-pch", "pch-dir"
static const char *const unkept_options[] = {UNKEPT_OPTIONS, NULL};
static const char *const unkept_in_device_ops[] = {UNKEPT_OPTIONS, "pch", NULL};

/* Options for debug information, and for an intermediate language that contains the absolute path
 * of its source. */
static const char *const placed_options[] = {
    "G",           "device-debug", "lineinfo", "generate-line-info", "dlto", "dlink-time-opt",
    "gen-opt-lto", "optix-ir",     NULL};

const kilni_compiler kilni_nvrtc_compiler = {
    .entry_point = "nvrtcCompileProgram",
    .unkept_options = unkept_in_device_ops,
    .placed_options = placed_options,
    .words = &kilni_clock_words,
    .refuse_words = kilni_clock_words_refusal,
};

const kilni_compiler kilni_nvrtc_compiler_with_headers = {
    .entry_point = "nvrtcCompileProgram",
    .unkept_options = unkept_options,
    .placed_options = placed_options,
    .words = &kilni_clock_words,
    .refuse_words = kilni_clock_words_refusal,
};
