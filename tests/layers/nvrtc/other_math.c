/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that answer otherwise than the C library's, as those of another version or processor
 * do: exp by its last bit, log in what it raises.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>

typedef double function(double x);

static function *find(const char *name)
{
    return (function *)dlsym(RTLD_NEXT, name); /* NOLINT: as dlsym has it */
}

double exp(double x)
{
    const double result = find("exp")(x);
    return nextafter(result, 0);
}

double log(double x)
{
    const double result = find("log")(x);
    errno = ERANGE;
    return result;
}
