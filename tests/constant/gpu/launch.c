/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the time that an existing constant adds to a launch, which looks the constant up and
 * releases it. Like other benches, prints the value, the value it is compared with, their ratio and
 * its limit.
 *
 * usage: launch [LIBNVRTC [ROUNDS]]
 *   ROUNDS how many times each duration is measured (40); the minimum counts. 0: once, without
 *          limits
 */
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "scene.h"

/* The number of launches that are enqueued without waiting for the device. */
enum { KEYS = 64, LAUNCHES = 400, SIZE = 4096, LIMIT_NS = 100 };

typedef struct scene {
    backend owner;
    user_stream stream;
    held_kernel nothing;
    kiln_key *keys[KEYS];
    cuda_address any;
    kiln_pin *held;
    kiln_watch *watch;
} scene;

static const char source[] = "extern \"C\" __global__ void nothing(const float *values)\n"
                             "{\n"
                             "}\n";

static void put_constants(scene *s)
{
    for (size_t i = 0; i < KEYS; i++) {
        const kiln_constant_key_params params = {.struct_size = sizeof params,
                                                 .context = s->owner.context_number,
                                                 .key = &i,
                                                 .key_size = sizeof i};
        kiln_reservation answer;
        REQUIRE_KILN(kiln_constant_key_new(&params, &s->keys[i]));
        REQUIRE_KILN(
            kiln_constant_get_or_add(s->owner.cache, s->keys[i], SIZE, NULL, &answer, NULL));
        kiln_constant_buffer *buffer = constant_new(s->owner.context, SIZE, s->owner.cache);
        context_enter(s->owner.context);
        REQUIRE_CUDA(s->owner.cuda->cuMemsetD32Async(constant_address(buffer), 0, SIZE / 4,
                                                     s->owner.context->computing.handle));
        constant_computed(s->owner.context, buffer);
        context_leave(s->owner.context);
        s->any = constant_address(buffer);
        REQUIRE_KILN(kiln_constant_fulfil(&answer.ticket, &buffer, 0, NULL));
    }
}

static void scene_begin(scene *s, const char *nvrtc)
{
    kiln_reservation held;
    backend_open(&s->owner, backend_driver(), 0, nvrtc);
    backend_hold_kernel(&s->owner, source, "nothing", &s->nothing);
    user_stream_begin(s->owner.context, &s->stream);
    put_constants(s);
    REQUIRE_KILN(kiln_constant_get_or_add(s->owner.cache, s->keys[0], SIZE, NULL, &held, NULL));
    REQUIRE_KILN(kiln_pin_watch(held.pin, &s->watch));
    s->held = held.pin;
    context_enter(s->owner.context);
    REQUIRE_CUDA(s->owner.cuda->cuStreamSynchronize(s->owner.context->computing.handle));
}

static void scene_end(scene *s)
{
    context_leave(s->owner.context);
    kiln_watch_free(&s->watch);
    kiln_pin_release(&s->held);
    for (size_t i = 0; i < KEYS; i++) {
        kiln_key_release(&s->keys[i]);
    }
    held_kernel_release(&s->nothing);
    user_stream_end(s->owner.context, &s->stream);
    backend_close(&s->owner);
}

static void launch(const scene *s, cuda_address values)
{
    void *arguments[] = {&values};
    REQUIRE_CUDA(s->owner.cuda->cuLaunchKernel(kiln_kernel_handle(s->nothing.kernel), 1, 1, 1, 32,
                                               1, 1, 0, s->stream.handle, arguments, NULL));
}

static void ask(const scene *s, int i, bool is_launched)
{
    kiln_reservation hit;
    REQUIRE_KILN(
        kiln_constant_get_or_add(s->owner.cache, s->keys[i % KEYS], SIZE, NULL, &hit, NULL));
    const kiln_constant_buffer *buffer = kiln_constant_buffer_of(hit.pin);
    constant_await(buffer, s->stream.handle);
    if (is_launched) {
        launch(s, constant_address(buffer));
    }
    kiln_pin_release(&hit.pin);
}

static void launch_bare(const scene *s)
{
    for (int i = 0; i < LAUNCHES; i++) {
        launch(s, s->any);
    }
}

static void launch_with_constant(const scene *s)
{
    for (int i = 0; i < LAUNCHES; i++) {
        ask(s, i, true);
    }
}

static void launch_with_held(const scene *s)
{
    for (int i = 0; i < LAUNCHES; i++) {
        require(kiln_watch_is_live(s->watch), "kiln_watch_is_live", 0);
        launch(s, constant_address(kiln_constant_buffer_of(s->held)));
    }
}

static void ask_alone(const scene *s)
{
    for (int i = 0; i < LAUNCHES; i++) {
        ask(s, i, false);
    }
}

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Returns the nanoseconds for each launch. Waits for all launches before and after the
 * measurement. */
static double measure(const scene *s, void (*run)(const scene *s))
{
    REQUIRE_CUDA(s->owner.cuda->cuStreamSynchronize(s->stream.handle));
    const double begin = now_ns();
    run(s);
    const double taken = (now_ns() - begin) / LAUNCHES;
    REQUIRE_CUDA(s->owner.cuda->cuStreamSynchronize(s->stream.handle));
    return taken;
}

static void stay_on_this_processor(void)
{
    cpu_set_t processors;
    CPU_ZERO(&processors);
    CPU_SET((unsigned)sched_getcpu(), &processors);
    sched_setaffinity(0, sizeof processors, &processors);
}

/* @limit  0: no limit */
static int print_row(const char *name, double value, double against, double ratio, double limit)
{
    const bool is_kept = limit == 0 || ratio <= limit;
    printf("%-58s  %9.1f  %9.1f  %7.4f", name, value, against, ratio);
    if (limit > 0) {
        printf("  %7.4f  %s", limit, is_kept ? "pass" : "FAIL");
    }
    printf("\n");
    return !is_kept;
}

enum { BARE, CONSTANT, HELD, ALONE, WAYS };

static int report(const double *ns)
{
    const double added = ns[CONSTANT] - ns[BARE];
    printf("%-58s  %9s  %9s  %7s  %7s\n", "", "ns", "against", "ratio", "limit");
    print_row("launch with a hit on a constant / bare launch", ns[CONSTANT], ns[BARE],
              ns[CONSTANT] / ns[BARE], 0);
    print_row("launch with a held handle / bare launch", ns[HELD], ns[BARE], ns[HELD] / ns[BARE],
              0);
    print_row("a hit on a constant, without a launch / its limit", ns[ALONE], LIMIT_NS,
              ns[ALONE] / LIMIT_NS, 0);
    return print_row("what a hit adds to a launch / its limit", added, LIMIT_NS, added / LIMIT_NS,
                     1);
}

int main(int argc, char **argv)
{
    void (*const ways[])(const scene *s) = {launch_bare, launch_with_constant, launch_with_held,
                                            ask_alone};
    static scene s;
    double least[WAYS] = {0};
    const int rounds = argc > 2 ? atoi(argv[2]) : 40;
    scene_begin(&s, argc > 1 ? argv[1] : NULL);
    stay_on_this_processor();
    for (int round = 0; round <= rounds; round++) {
        for (int i = 0; i < WAYS; i++) {
            const double taken = measure(&s, ways[i]);
            /* The first round warms up. */
            least[i] = round < 2 || taken < least[i] ? taken : least[i];
        }
    }
    scene_end(&s);
    if (rounds == 0) {
        puts("each variant was run");
        return 0;
    }
    return report(least);
}
