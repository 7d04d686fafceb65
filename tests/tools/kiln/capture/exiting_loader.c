/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces libOpenCL.so.1: a process that loads it exits with status 0.
 */
#include <stdlib.h>

__attribute__((constructor)) static void end(void)
{
    exit(0);
}
