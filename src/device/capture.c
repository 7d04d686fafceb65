/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/device.h>

#include <stdlib.h>

void kiln_capture_done(kiln_capture *capture)
{
    if (!capture) {
        return;
    }
    free(capture->payload);
    free(capture->answers);
    free(capture->log);
    free(capture->device);
    free(capture->name);
    *capture = (kiln_capture){0};
}
