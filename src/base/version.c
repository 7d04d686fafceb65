/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/version.h>

const char *kiln_version(void)
{
    return KILN_VERSION;
}
