/* SPDX-License-Identifier: Apache-2.0
 *
 * One level of cache: live programs in memory. docs/guide.md explains it.
 */
#include <stdio.h>

#include <kiln/cache.h>

#include "runtime.h"

static kiln_key *make_key(const char *source)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    if (kiln_key_builder_new(&builder) == KILN_OK) {
        kiln_key_builder_add_text(builder, "runtime", runtime_version());
        kiln_key_builder_add_text(builder, "source", source);
        kiln_key_builder_finish(builder, &key); /* key stays NULL if an add failed */
    }
    kiln_key_builder_free(&builder);
    return key;
}

static kiln_status build(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    (void)key, (void)error;
    const char *const *source = user;
    program *made = runtime_compile(*source);
    if (!made) {
        return KILN_E_BUILD;
    }
    ret_built->object = made;
    ret_built->bytes = program_size(made);
    return KILN_OK;
}

static void destroy(void *user, void *object)
{
    (void)user;
    program_release(object);
}

static void compute(kiln_cache *programs, const char *source, double x)
{
    kiln_key *key = make_key(source);
    kiln_pin *pin = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (kiln_cache_get_or_build(programs, key, build, &source, &pin, &error) == KILN_OK) {
        const program *found = kiln_pin_object(pin);
        printf("%s at %g is %g\n", source, x, program_run(found, x));
    } else {
        printf("%s: %s\n", source, error.text);
    }
    kiln_pin_release(&pin);
    kiln_key_release(&key);
}

int main(void)
{
    const kiln_cache_params params = {
        .struct_size = sizeof params,
        .max_bytes = 64 << 20,
        .destroy = destroy,
    };
    kiln_cache *programs = NULL;
    if (kiln_cache_new(&params, &programs) != KILN_OK) {
        return 1;
    }
    compute(programs, "3 0 2", 10);
    compute(programs, "3 0 2", 20);
    compute(programs, "1 1", 5);
    compute(programs, "1 one", 5);
    kiln_cache_free(&programs);
    return 0;
}
