/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls the program's function while_opening as soon as it is opened; the thread holds the loader's
 * lock then.
 */
#include <stddef.h>

extern void (*while_opening)(void);

__attribute__((constructor)) static void begin(void)
{
    while_opening();
}
