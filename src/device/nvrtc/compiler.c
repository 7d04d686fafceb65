/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/compiler.h"

#include <stddef.h>

/* Options that measure time, and options for precompiled headers. */
static const char *const unkept_options[] = {
    "time", "fdevice-time-trace", "pch", "create-pch", "use-pch", "pch-dir", NULL};

/* Options for debug information, and for an intermediate language that contains the absolute path
 * of its source. */
static const char *const placed_options[] = {
    "G",           "device-debug", "lineinfo", "generate-line-info", "dlto", "dlink-time-opt",
    "gen-opt-lto", "optix-ir",     NULL};

const kilni_compiler kilni_nvrtc_compiler = {
    .entry_point = "nvrtcCompileProgram",
    .unkept_options = unkept_options,
    .placed_options = placed_options,
    .words = &kilni_clock_words,
    .refuse_words = kilni_clock_words_refusal,
};
