/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that calls a function of the program when the process ends, after the destructors of
 * the libraries that were opened before it.
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
