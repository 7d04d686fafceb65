/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/watch/compiler.h"

extern const kilni_compiler kilni_nvrtc_compiler;

/* For a caller that follows precompiled headers: see precompiled_headers.h. */
extern const kilni_compiler kilni_nvrtc_compiler_with_headers;
