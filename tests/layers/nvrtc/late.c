/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls a function when the process ends, after the destructors of libraries that were opened
 * before this one.
 */
#include <stddef.h>

extern void (*at_the_end)(void);

void (*at_the_end)(void);

__attribute__((destructor)) static void finish(void)
{
    if (at_the_end) {
        at_the_end();
    }
}
