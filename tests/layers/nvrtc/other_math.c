/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions whose results differ from the C library's, like functions of a different version or for
 * a different processor: exp in the last bit, log in the exceptions that it raises.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>

typedef double function(double x);

static function *find(const char *name)
{
    return (function *)dlsym(RTLD_NEXT, name); /* NOLINT: the type of dlsym */
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
