/* SPDX-License-Identifier: Apache-2.0
 *
 * faces_constants ROUNDS: measures what backends pay for a cached constant, and compares it with
 * the cache engine below and with a plain load.
 */
#include <stdlib.h>

#include <kiln/constant.h>
#include <kiln/constant_backend.h>

#include "../memory/floor.h"
#include "constants_hpp.h"
#include "face.h"

enum { KEYS = 64, SEQUENCE = 4096, STRETCH = 200000 };

/* What is cached, both as a constant and as an object of the engine. */
typedef struct scene {
    kiln_key *keys[KEYS];
    unsigned char sequence[SEQUENCE]; /* the keys to request, in order */
    uint64_t objects[KEYS];
    kiln_cache *engine;
    kiln_constant_cache *constants;
    kiln_pin *held;
    kiln_watch *watch;
    int word;
} scene;

/* ---- set-up ---- */

static void *hand_on(size_t size, void *engine, void *allocator)
{
    (void)size;
    (void)allocator;
    return engine;
}

static void leave(void *data, void *engine, void *allocator)
{
    (void)data;
    (void)engine;
    (void)allocator;
}

static kiln_key *key_of(uint64_t number)
{
    kiln_constant_key_params params = {
        .struct_size = sizeof params, .key = &number, .key_size = sizeof number};
    kiln_key *key = NULL;
    require(kiln_constant_key_new(&params, &key) == KILN_OK, "a key");
    return key;
}

/* The memory of a constant is an object that exists already. */
static void put_constant(const scene *s, const kiln_key *key, uint64_t *object)
{
    kiln_constant_memory memory = {
        .struct_size = sizeof memory, .allocate = hand_on, .free = leave, .engine = object};
    kiln_reservation answer;
    kiln_constant_buffer *buffer;
    require(kiln_constant_get_or_add(s->constants, key, sizeof *object, NULL, &answer, NULL) ==
                    KILN_OK &&
                answer.outcome == KILN_OWNER,
            "asking for a constant");
    require(kiln_constant_buffer_new(&memory, sizeof *object, NULL, &buffer) == KILN_OK &&
                kiln_constant_fulfil(&answer.ticket, &buffer, 1, NULL) == KILN_OK,
            "putting a constant in");
}

static void put_object(const scene *s, const kiln_key *key, uint64_t *object)
{
    kiln_reservation answer;
    require(kiln_cache_reserve(s->engine, key, NULL, &answer, NULL) == KILN_OK &&
                kiln_ticket_fulfil(&answer.ticket, object, sizeof *object, 1, NULL) == KILN_OK,
            "putting an object in");
}

static void hold_one(scene *s)
{
    kiln_reservation answer;
    require(kiln_constant_get_or_add(s->constants, s->keys[0], sizeof s->objects[0], NULL, &answer,
                                     NULL) == KILN_OK &&
                answer.outcome == KILN_HIT && kiln_pin_watch(answer.pin, &s->watch) == KILN_OK,
            "holding a constant");
    s->held = answer.pin;
}

static void scene_begin(scene *s)
{
    kiln_cache_params params = {
        .struct_size = sizeof params, .max_bytes = KILN_UNLIMITED, .max_entries = KILN_UNLIMITED};
    require(kiln_cache_new(&params, &s->engine) == KILN_OK &&
                kiln_constant_cache_of(KILN_ENGINE_CPU, 0, &s->constants) == KILN_OK &&
                kiln_constant_set_enabled(1) == KILN_OK,
            "making caches");
    for (size_t i = 0; i < KEYS; i++) {
        s->objects[i] = i;
        s->keys[i] = key_of(i);
        put_constant(s, s->keys[i], &s->objects[i]);
        put_object(s, s->keys[i], &s->objects[i]);
    }
    uint32_t random = 1;
    for (size_t i = 0; i < SEQUENCE; i++) {
        random = random * 1664525u + 1013904223u;
        s->sequence[i] = (unsigned char)((random >> 24) % KEYS);
    }
    s->word = 1;
    hold_one(s);
}

static void scene_end(scene *s)
{
    kiln_watch_free(&s->watch);
    kiln_pin_release(&s->held);
    kiln_constant_set_enabled(0);
    kiln_cache_free(&s->engine);
    for (size_t i = 0; i < KEYS; i++) {
        kiln_key_release(&s->keys[i]);
    }
}

/* ---- requests ---- */

static const kiln_key *key_at(const scene *s, size_t i)
{
    return s->keys[s->sequence[i % SEQUENCE]];
}

static uint64_t run_constant(void *user, size_t count)
{
    scene *s = user;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        kiln_reservation hit;
        require(kiln_constant_get_or_add(s->constants, key_at(s, i), sizeof(uint64_t), NULL, &hit,
                                         NULL) == KILN_OK,
                "a hit");
        const kiln_constant_buffer *buffer = kiln_constant_buffer_of(hit.pin);
        sum += *(const uint64_t *)kiln_constant_buffer_data(buffer);
        kiln_pin_release(&hit.pin);
    }
    return sum;
}

static uint64_t run_pin(void *user, size_t count)
{
    scene *s = user;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        kiln_pin *pin;
        require(kiln_cache_pin(s->engine, key_at(s, i), &pin) == KILN_OK, "a pin");
        sum += *(const uint64_t *)kiln_pin_object(pin);
        kiln_pin_release(&pin);
    }
    return sum;
}

static uint64_t run_watch(void *user, size_t count)
{
    const scene *s = user;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (uint64_t)kiln_watch_is_live(s->watch);
    }
    return sum;
}

static uint64_t run_load(void *user, size_t count)
{
    const scene *s = user;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (uint64_t)floor_load(&s->word);
    }
    return sum;
}

int main(int argc, char **argv)
{
    static scene s;
    scene_begin(&s);
    const face faces[] = {
        {"constant", run_constant, &s, STRETCH},
        {"pin", run_pin, &s, STRETCH},
        {"constant, in C++", run_constant_hpp, NULL, STRETCH},
        {"constant, in C++, with its key", run_constant_hpp_with_key, NULL, STRETCH / 10},
        {"held handle", run_watch, &s, 10 * STRETCH},
        {"load", run_load, &s, 10 * STRETCH},
    };
    measure_faces(faces, sizeof faces / sizeof faces[0], argc > 1 ? atoi(argv[1]) : 5);
    scene_end(&s);
    return 0;
}
