/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/compile_uncached.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/nvrtc/lasting_options.h"

/* Versions before 12.9 do not use the driver's cache, and lack the option that bypasses it. */
static bool uses_drivers_cache(const kilni_nvrtc_functions *nvrtc)
{
    int major = 0, minor = 0;
    return nvrtc->version(&major, &minor) == KILNI_NVRTC_SUCCESS &&
           (major > 12 || (major == 12 && minor >= 9));
}

kiln_status kilni_nvrtc_compile(const kilni_nvrtc_functions *nvrtc, kilni_nvrtc_program program,
                                int option_count, const char *const *options, int *ret_result)
{
    kilni_nvrtc_note_lasting_options(option_count, options);
    if (!uses_drivers_cache(nvrtc)) {
        *ret_result = nvrtc->compile(program, option_count, options);
        return KILN_OK;
    }
    const size_t count = (size_t)option_count;
    const char **all = malloc((count + 1) * sizeof *all);
    if (!all) {
        return KILN_E_NO_MEMORY;
    }
    if (count > 0) {
        memcpy(all, options, count * sizeof *all);
    }
    all[count] = "--no-cache";
    *ret_result = nvrtc->compile(program, option_count + 1, all);
    free(all);
    return KILN_OK;
}
