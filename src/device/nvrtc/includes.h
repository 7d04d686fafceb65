/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program includes, told from its text: where NVRTC can't be watched.
 */
#pragma once

#include "device/nvrtc/request.h"

/* Appends the contents, as far as they can be told without NVRTC, which would have to compile.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: they can't, with the reason; KILN_E_NO_MEMORY. Blocks: on
 * reading. */
kiln_status kilni_nvrtc_add_includes(const kilni_nvrtc_request *request, kiln_key_builder *key,
                                     kiln_error *error);
