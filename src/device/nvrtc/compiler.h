/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/watch/compiler.h"

extern const kilni_compiler kilni_nvrtc_compiler;
