/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/compiled_program.h"

#include <stdlib.h>

#include "device/nvrtc/context.h"
#include "device/nvrtc/request.h"

kiln_status kilni_nvrtc_compiled_program_decode(kilni_nvrtc_compiled_program *built)
{
    return kilni_nvrtc_outputs_decode((kiln_bytes){built->encoded.bytes, built->encoded.length},
                                      (kiln_bytes){built->code.bytes, built->code.length},
                                      KILNI_NVRTC_NO_NAME, &built->outputs);
}

void kilni_nvrtc_compiled_program_free(const kiln_nvrtc_device *device,
                                       kilni_nvrtc_compiled_program *built)
{
    kilni_nvrtc_context_unload(device, built);
    kilni_nvrtc_outputs_done(&built->outputs);
    kilni_text_done(&built->device);
    kilni_text_done(&built->reads);
    kilni_text_done(&built->folds);
    kilni_text_done(&built->encoded);
    kilni_text_done(&built->code);
    free(built);
}
