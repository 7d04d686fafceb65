/* SPDX-License-Identifier: Apache-2.0
 *
 * A library whose constructor calls the program's function while_opening, while the thread holds
 * the loader's lock.
 */
#include <stddef.h>

extern void (*while_opening)(void);

__attribute__((constructor)) static void begin(void)
{
    while_opening();
}
