/* SPDX-License-Identifier: Apache-2.0
 *
 * The guarantees of kiln/cache.h for a cache, its objects and look-ups. Like test_memory_*.c, this
 * file uses only public calls, so any engine behind that header must pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <kiln/cache.h>

#include "support/failing_malloc.h"
#include "support/memory_scene.h"

/* ---- policies' names ---- */

static void test_policies_have_names(void **state)
{
    (void)state;
    assert_string_equal(kiln_policy_name(KILN_POLICY_COST), "cost");
    assert_string_equal(kiln_policy_name(KILN_POLICY_LRU), "lru");
    assert_string_equal(kiln_policy_name(KILN_POLICY_FIFO), "fifo");
    assert_string_equal(kiln_policy_name(KILN_POLICY_NO_EVICT), "no_evict");
    assert_string_equal(kiln_policy_name(KILN_POLICY_AUTO), "auto");
    assert_null(kiln_policy_name(5));
    assert_null(kiln_policy_name(UINT32_MAX));
}

static void test_policies_are_read_in_lower_or_upper_case(void **state)
{
    (void)state;
    uint32_t policy = 77;
    for (uint32_t i = KILN_POLICY_COST; i <= KILN_POLICY_AUTO; i++) {
        assert_int_equal(kiln_policy_parse(kiln_policy_name(i), &policy), KILN_OK);
        assert_int_equal(policy, i);
    }
    assert_int_equal(kiln_policy_parse("NO_EVICT", &policy), KILN_OK);
    assert_int_equal(policy, KILN_POLICY_NO_EVICT);
    assert_int_equal(kiln_policy_parse("FIFO", &policy), KILN_OK);
    assert_int_equal(policy, KILN_POLICY_FIFO);
    policy = 77;
    assert_int_equal(kiln_policy_parse("", &policy), KILN_E_PARSE);
    assert_int_equal(kiln_policy_parse("lr", &policy), KILN_E_PARSE);
    assert_int_equal(kiln_policy_parse("lru ", &policy), KILN_E_PARSE);
    assert_int_equal(kiln_policy_parse(NULL, &policy), KILN_E_PARSE);
    assert_int_equal(policy, 77);
}

/* ---- creating and freeing a cache ---- */

static void test_defaults_are_finite(void **state)
{
    scene *s = *state;
    assert_int_equal(kiln_cache_new(NULL, &s->cache), KILN_OK);
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.max_bytes, (uint64_t)256 << 20);
    assert_int_equal(stats.max_entries, 65536);
    assert_int_equal(stats.policy, KILN_POLICY_COST);
    assert_int_equal(stats.entries, 0);
    assert_int_equal(stats.bytes, 0);
}

static void test_wrong_parameters_are_refused(void **state)
{
    (void)state;
    kiln_cache *cache = NULL;
    kiln_cache_params params = {.struct_size = sizeof params, .policy = 5};
    assert_int_equal(kiln_cache_new(&params, &cache), KILN_E_INVALID);
    params = (kiln_cache_params){.struct_size = sizeof params, .flags = 8};
    assert_int_equal(kiln_cache_new(&params, &cache), KILN_E_INVALID);
    params = (kiln_cache_params){.struct_size = 0};
    assert_int_equal(kiln_cache_new(&params, &cache), KILN_E_INVALID);
    assert_int_equal(kiln_cache_new(NULL, NULL), KILN_E_INVALID);
    assert_null(cache);
}

static void test_parameters_of_other_versions(void **state)
{
    (void)state;
    struct {
        kiln_cache_params known;
        uint64_t later;
    } longer = {.known = {.struct_size = sizeof longer, .max_entries = 7}};
    kiln_cache *cache = NULL;
    assert_int_equal(kiln_cache_new(&longer.known, &cache), KILN_OK);
    assert_int_equal(stats_of(cache).max_entries, 7);
    kiln_cache_free(&cache);
    longer.later = 1;
    assert_int_equal(kiln_cache_new(&longer.known, &cache), KILN_E_INVALID);

    kiln_cache_params shorter = {
        .struct_size = offsetof(kiln_cache_params, max_entries), .max_bytes = 9, .max_entries = 7};
    assert_int_equal(kiln_cache_new(&shorter, &cache), KILN_OK);
    assert_int_equal(stats_of(cache).max_bytes, 9);
    assert_int_equal(stats_of(cache).max_entries, 65536);
    kiln_cache_free(&cache);
}

static void test_free_takes_null_and_sets_null(void **state)
{
    scene *s = *state;
    kiln_cache_free(NULL);
    kiln_cache_free(&s->cache);
    open_cache(s);
    kiln_cache_free(&s->cache);
    assert_null(s->cache);
}

static void test_free_destroys_what_has_no_pin(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    kiln_pin *pin = put_with(s, 1, 10, 1, 0);
    kiln_watch *watch = watch_of(pin);
    kiln_cache_free(&s->cache);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(ends(s, 1), 0);
    assert_false(kiln_watch_is_live(watch));
    assert_ptr_equal(kiln_pin_object(pin), &s->objects[1]);
    kiln_pin *second = kiln_pin_retain(pin);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 1), 0);
    kiln_pin_release(&second);
    assert_int_equal(ends(s, 1), 1);
    assert_false(kiln_watch_is_live(watch));
    kiln_watch_free(&watch);
    assert_null(watch);
}

static void test_objects_may_need_no_destroy_function(void **state)
{
    scene *s = *state;
    assert_int_equal(kiln_cache_new(NULL, &s->cache), KILN_OK);
    put(s, 0, 10, 1);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(ends(s, 0), 0);
    assert_int_equal(stats_of(s->cache).lingering_entries, 0);
}

/* For end_chain, a destroy function that calls the cache and releases the pin of another object. */
typedef struct chain {
    scene *s;
    kiln_pin *next; /* the pin that the object holds */
    int ended;
} chain;

static void end_chain(void *user, void *object)
{
    chain *c = user;
    count_end(NULL, object);
    c->ended++;
    assert_int_equal(stats_of(c->s->cache).policy, KILN_POLICY_COST);
    kiln_pin_release(&c->next);
}

static void test_a_destroy_function_may_use_the_cache(void **state)
{
    scene *s = *state;
    chain c = {.s = s};
    kiln_cache_params params = {.struct_size = sizeof params, .destroy = end_chain, .user = &c};
    assert_int_equal(kiln_cache_new(&params, &s->cache), KILN_OK);
    c.next = put_with(s, 1, 10, 1, 0);
    put(s, 0, 10, 1);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[1]), KILN_OK);
    assert_int_equal(ends(s, 1), 0);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(ends(s, 1), 1);
    assert_int_equal(c.ended, 2);
}

static void test_null_is_refused(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_pin *pin = NULL;
    kiln_watch *watch = NULL;
    kiln_reservation r;
    uint64_t id;
    assert_int_equal(kiln_cache_reserve(NULL, s->keys[0], NULL, &r, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_cache_reserve(s->cache, NULL, NULL, &r, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[0], NULL, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_cache_get_or_build(s->cache, s->keys[0], NULL, NULL, &pin, NULL),
                     KILN_E_INVALID);
    assert_int_equal(kiln_cache_pin(s->cache, NULL, &pin), KILN_E_INVALID);
    assert_int_equal(kiln_cache_pin(s->cache, s->keys[0], NULL), KILN_E_INVALID);
    assert_int_equal(kiln_pin_watch(NULL, &watch), KILN_E_INVALID);
    assert_int_equal(kiln_cache_set_cost(NULL, s->keys[0], 1), KILN_E_INVALID);
    assert_int_equal(kiln_cache_set_capacity(NULL, 1, 1), KILN_E_INVALID);
    assert_int_equal(kiln_cache_set_capacity_flush(NULL, 1, 1), KILN_E_INVALID);
    assert_int_equal(kiln_cache_set_policy(NULL, KILN_POLICY_LRU), KILN_E_INVALID);
    assert_int_equal(kiln_cache_set_policy(s->cache, 5), KILN_E_INVALID);
    assert_int_equal(kiln_cache_evict_bytes(NULL, 1, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_cache_remove(s->cache, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_cache_listen(s->cache, KILN_EVENT_HIT, NULL, NULL, &id), KILN_E_INVALID);
    assert_int_equal(kiln_cache_get_stats(s->cache, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_cache_remove_group(NULL, 1), 0);
    assert_null(kiln_pin_object(NULL));
    assert_null(kiln_pin_retain(NULL));
    assert_int_equal(kiln_cache_collect(NULL), 0);
    assert_false(kiln_watch_is_live(NULL));
    kiln_cache_clear(NULL);
    kiln_cache_unlisten(NULL, 1);
    kiln_pin_release(NULL);
    kiln_pin_release(&pin);
    kiln_watch_free(NULL);
    kiln_watch_free(&watch);
    kiln_ticket_abandon(NULL, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
    kiln_section section;
    kiln_section_enter(NULL, &section);
    assert_null(kiln_cache_peek(&section, s->keys[0]));
    kiln_section_leave(&section);
}

/* ---- keys ---- */

static void test_equal_keys_share_one_object(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_key_builder *builder = NULL;
    kiln_key *whole = NULL;
    kiln_key *stripped = NULL;
    char part[100] = "a long part";
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add(builder, "source", part, sizeof part), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &whole), KILN_OK);
    assert_int_equal(kiln_key_strip(whole, 8, &stripped), KILN_OK);
    kiln_key_builder_free(&builder);

    kiln_reservation r;
    assert_int_equal(kiln_cache_reserve(s->cache, whole, NULL, &r, NULL), KILN_OK);
    kiln_key_release(&whole);
    assert_int_equal(kiln_ticket_fulfil(&r.ticket, &s->objects[0], 1, 1, NULL), KILN_OK);
    assert_int_equal(kiln_cache_reserve(s->cache, stripped, NULL, &r, NULL), KILN_OK);
    assert_int_equal(r.outcome, KILN_HIT);
    kiln_pin_release(&r.pin);
    kiln_key_release(&stripped);
}

static void test_many_keys(void **state)
{
    scene *s = *state;
    open_cache(s);
    enum { MANY = 5000 };
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            kiln_key *key = make_key(1000 + i);
            kiln_reservation r;
            assert_int_equal(kiln_cache_reserve(s->cache, key, NULL, &r, NULL), KILN_OK);
            assert_int_equal(r.outcome, round == 0 ? KILN_OWNER : KILN_HIT);
            if (round == 0) {
                kiln_ticket_fulfil(&r.ticket, &s->objects[i % KEY_COUNT], 1, 1, NULL);
            }
            kiln_pin_release(&r.pin);
            kiln_key_release(&key);
        }
    }
    assert_int_equal(stats_of(s->cache).entries, MANY);
    kiln_cache_clear(s->cache);
    assert_int_equal(stats_of(s->cache).entries, 0);
    int destroyed = 0;
    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        destroyed += ends(s, i);
    }
    assert_int_equal(destroyed, MANY);
}

/* ---- get_or_build ---- */

typedef struct recipe {
    scene *s;
    uint32_t key;
    int calls;
    kiln_status status; /* what the build returns */
    const char *text;   /* its message */
    bool empty;         /* the build returns no object */
    uint64_t bytes, cost;
    const struct recipe *needs; /* the key that the build asks the cache for */
    kiln_status needed;         /* the status of that request */
    kiln_error needed_error;
} recipe;

static kiln_status build(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    recipe *r = user;
    r->calls++;
    assert_true(kiln_key_equals(key, r->s->keys[r->key]));
    assert_non_null(error);
    if (r->needs) {
        kiln_pin *pin = NULL;
        recipe *needs = (recipe *)(uintptr_t)r->needs;
        r->needed_error.struct_size = sizeof r->needed_error;
        r->needed = kiln_cache_get_or_build(r->s->cache, r->s->keys[needs->key], build, needs, &pin,
                                            &r->needed_error);
        kiln_pin_release(&pin);
    }
    if (r->text) {
        snprintf(error->text, sizeof error->text, "%s", r->text);
    }
    *ret_built = (kiln_built){
        .object = r->empty ? NULL : &r->s->objects[r->key], .bytes = r->bytes, .cost_ns = r->cost};
    return r->status;
}

static kiln_status get(recipe *r, kiln_pin **ret_pin, kiln_error *error)
{
    return kiln_cache_get_or_build(r->s->cache, r->s->keys[r->key], build, r, ret_pin, error);
}

static void test_an_object_is_built_once(void **state)
{
    scene *s = *state;
    open_cache(s);
    recipe r = {.s = s, .bytes = 7};
    kiln_pin *first = NULL;
    kiln_pin *second = NULL;
    assert_int_equal(get(&r, &first, NULL), KILN_OK);
    assert_int_equal(get(&r, &second, NULL), KILN_OK);
    assert_int_equal(r.calls, 1);
    assert_ptr_equal(kiln_pin_object(first), &s->objects[0]);
    assert_ptr_equal(kiln_pin_object(second), &s->objects[0]);
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.hits, 1);
    assert_int_equal(stats.entries, 1);
    assert_int_equal(stats.bytes, 7);
    kiln_pin_release(&first);
    kiln_pin_release(&second);
    assert_int_equal(ends(s, 0), 0);
}

static void test_failed_build_is_reported_and_tried_again(void **state)
{
    scene *s = *state;
    open_cache(s);
    recipe r = {.s = s, .status = KILN_E_BUILD, .text = "line 3: no"};
    kiln_pin *pin = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(get(&r, &pin, &error), KILN_E_BUILD);
    assert_null(pin);
    assert_int_equal(error.status, KILN_E_BUILD);
    assert_string_equal(error.text, "line 3: no");
    assert_int_equal(stats_of(s->cache).failures, 1);
    assert_int_equal(ends(s, 0), 0);
    r.status = KILN_OK;
    assert_int_equal(get(&r, &pin, NULL), KILN_OK);
    assert_int_equal(r.calls, 2);
    kiln_pin_release(&pin);
}

static void test_a_failure_without_a_text_gets_one(void **state)
{
    scene *s = *state;
    open_cache(s);
    recipe r = {.s = s, .status = KILN_E_REFUSED};
    kiln_pin *pin = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(get(&r, &pin, &error), KILN_E_REFUSED);
    assert_string_not_equal(error.text, "");
}

static void test_success_without_an_object_is_a_failure(void **state)
{
    scene *s = *state;
    open_cache(s);
    recipe r = {.s = s, .empty = true};
    kiln_pin *pin = NULL;
    assert_int_equal(get(&r, &pin, NULL), KILN_E_INVALID);
    assert_null(pin);
    assert_true(is_absent(s, 0));
}

static void test_failures_are_retained_on_request(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_RETAIN_FAILURES});
    recipe r = {.s = s, .status = KILN_E_BUILD, .text = "never"};
    kiln_pin *pin = NULL;
    assert_int_equal(get(&r, &pin, NULL), KILN_E_BUILD);
    kiln_error error = {.struct_size = sizeof error};
    r.text = "again";
    assert_int_equal(get(&r, &pin, &error), KILN_E_BUILD);
    assert_string_equal(error.text, "never");
    assert_int_equal(r.calls, 1);
    assert_int_equal(kiln_cache_pin(s->cache, s->keys[0], &pin), KILN_MISS);
    assert_int_equal(stats_of(s->cache).entries, 0);
    kiln_reservation reservation;
    error = (kiln_error){.struct_size = sizeof error};
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[0], NULL, &reservation, &error),
                     KILN_E_BUILD);
    assert_string_equal(error.text, "never");

    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_MISS);
    r.status = KILN_OK;
    assert_int_equal(get(&r, &pin, NULL), KILN_OK);
    kiln_pin_release(&pin);
}

static void test_transient_failures_are_never_retained(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_RETAIN_FAILURES});
    const kiln_status transient[] = {KILN_E_NO_MEMORY, KILN_E_RESOURCES, KILN_E_IO, KILN_TIMEOUT};
    kiln_pin *pin = NULL;
    for (uint32_t i = 0; i < 4; i++) {
        recipe r = {.s = s, .key = i, .status = transient[i]};
        assert_int_equal(get(&r, &pin, NULL), transient[i]);
        assert_true(is_absent(s, i));
    }
    const kiln_status lasting[] = {KILN_E_BUILD, KILN_E_INVALID, KILN_E_CYCLE, KILN_MISS};
    for (uint32_t i = 4; i < 8; i++) {
        recipe r = {.s = s, .key = i, .status = lasting[i - 4]};
        assert_int_equal(get(&r, &pin, NULL), lasting[i - 4]);
        assert_int_equal(get(&r, &pin, NULL), lasting[i - 4]);
        assert_int_equal(r.calls, 1);
    }
    assert_int_equal(stats_of(s->cache).failures, 8);
}

static kiln_status miss(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    (void)user;
    (void)key;
    (void)ret_built;
    (void)error;
    return KILN_MISS;
}

static void test_a_build_with_a_positive_status_gives_no_pin(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_pin *pin = (kiln_pin *)(uintptr_t)1;
    assert_int_equal(kiln_cache_get_or_build(s->cache, s->keys[0], miss, NULL, &pin, NULL),
                     KILN_MISS);
    assert_null(pin);
}

static void test_a_build_may_use_the_cache_for_other_keys(void **state)
{
    scene *s = *state;
    open_cache(s);
    recipe program = {.s = s, .key = 1};
    recipe kernel = {.s = s, .key = 0, .needs = &program};
    kiln_pin *pin = NULL;
    assert_int_equal(get(&kernel, &pin, NULL), KILN_OK);
    assert_int_equal(kernel.needed, KILN_OK);
    assert_int_equal(program.calls, 1);
    assert_true(is_ready(s, 0));
    assert_true(is_ready(s, 1));
    kiln_pin_release(&pin);
}

static void test_build_that_needs_itself_is_reported(void **state)
{
    scene *s = *state;
    open_cache(s);
    recipe inner = {.s = s, .key = 0};
    recipe middle = {.s = s, .key = 1, .needs = &inner};
    recipe outer = {.s = s, .key = 0, .needs = &middle};
    kiln_pin *pin = NULL;
    assert_int_equal(get(&outer, &pin, NULL), KILN_OK);
    assert_int_equal(inner.calls, 0);
    assert_int_equal(middle.needed, KILN_E_CYCLE);
    assert_int_equal(middle.needed_error.status, KILN_E_CYCLE);
    assert_non_null(strstr(middle.needed_error.text, "key-0"));
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_digest whole = kiln_key_digest(s->keys[0]);
    kiln_digest_format(&whole, digest);
    digest[8] = '\0';
    assert_non_null(strstr(middle.needed_error.text, digest));
    kiln_pin_release(&pin);
}

static void test_uncacheable_object_is_built_for_its_caller(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_DISABLED});
    recipe r = {.s = s, .bytes = 5};
    kiln_pin *pin = NULL;
    assert_int_equal(get(&r, &pin, NULL), KILN_OK);
    assert_ptr_equal(kiln_pin_object(pin), &s->objects[0]);
    assert_false(is_ready(s, 0));
    kiln_watch *watch = watch_of(pin);
    assert_false(kiln_watch_is_live(watch));
    kiln_watch_free(&watch);
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.bypasses, 1);
    assert_int_equal(stats.entries, 0);
    assert_int_equal(stats.lingering_entries, 1);
    assert_int_equal(stats.lingering_bytes, 5);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(stats_of(s->cache).lingering_bytes, 0);
    r.status = KILN_E_BUILD;
    assert_int_equal(get(&r, &pin, NULL), KILN_E_BUILD);
    assert_int_equal(r.calls, 2);
}

static void test_the_time_of_a_build_is_its_cost(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 2});
    put(s, 0, 100, 1);
    kiln_ticket *ticket = own(s, 1);
    rest();
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[1], 100, 0, NULL), KILN_OK);
    put(s, 2, 100, 2);
    assert_int_equal(ends(s, 0), 1);
    assert_true(is_ready(s, 1));
}

/* ---- peek and sections ---- */

static void test_peek_sees_what_is_ready(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    assert_null(kiln_cache_peek(&section, s->keys[0]));
    kiln_ticket *ticket = own(s, 0);
    assert_null(kiln_cache_peek(&section, s->keys[0]));
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    assert_ptr_equal(kiln_cache_peek(&section, s->keys[0]), &s->objects[0]);
    assert_null(kiln_cache_peek(&section, NULL));
    kiln_section_leave(&section);
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.hits, 0);
    assert_int_equal(stats.misses, 1);
}

/* Looks up @count keys at once. Every third is not ready, every fifth is NULL, and every seventh is
 * an equal copy of the key. */
static void check_many(scene *s, kiln_key *const *ready, size_t count)
{
    const kiln_key *keys[100];
    kiln_key *equal[100] = {NULL};
    void *objects[101] = {NULL};
    kiln_pin *pins[101] = {NULL};
    size_t expected = 0, found = 0;
    for (size_t i = 0; i < count; i++) {
        equal[i] = make_key((uint32_t)(i % 7 == 0 ? 1000 + i : 2000 + i));
        keys[i] = i % 5 == 0 ? NULL : i % 3 == 0 || i % 7 == 0 ? equal[i] : ready[i];
        expected += i % 5 != 0 && (i % 3 != 0 || i % 7 == 0);
    }
    objects[count] = pins[count] = (void *)s;
    const kiln_cache_stats before = stats_of(s->cache);
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    assert_int_equal(kiln_cache_peek_many(&section, keys, count, objects), expected);
    kiln_section_leave(&section);
    assert_int_equal(kiln_cache_pin_many(s->cache, keys, count, pins),
                     expected == count ? KILN_OK : KILN_MISS);
    for (size_t i = 0; i < count; i++) {
        const bool is_ready = i % 5 != 0 && (i % 3 != 0 || i % 7 == 0);
        assert_ptr_equal(objects[i], is_ready ? &s->objects[i % KEY_COUNT] : NULL);
        assert_ptr_equal(kiln_pin_object(pins[i]), objects[i]);
        found += pins[i] != NULL;
        kiln_pin_release(&pins[i]);
        kiln_key_release(&equal[i]);
    }
    assert_ptr_equal(objects[count], s);
    assert_ptr_equal(pins[count], s);
    assert_int_equal(found, expected);
    assert_int_equal(stats_of(s->cache).hits - before.hits, expected);
}

static void test_several_keys_at_once(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_key *ready[100];
    for (uint32_t i = 0; i < 100; i++) {
        kiln_reservation r;
        ready[i] = make_key(1000 + i);
        assert_int_equal(kiln_cache_reserve(s->cache, ready[i], NULL, &r, NULL), KILN_OK);
        assert_int_equal(kiln_ticket_fulfil(&r.ticket, &s->objects[i % KEY_COUNT], 1, 1, NULL),
                         KILN_OK);
    }
    for (size_t count = 0; count < 100; count += count < 34 ? 1 : 13) {
        check_many(s, ready, count);
    }
    /* If a key is given twice, the caller gets two pins. */
    const kiln_key *twice[] = {ready[1], ready[1]};
    kiln_pin *pins[2];
    assert_int_equal(kiln_cache_pin_many(s->cache, twice, 2, pins), KILN_OK);
    assert_ptr_equal(pins[0], pins[1]);
    kiln_cache_clear(s->cache);
    kiln_pin_release(&pins[0]);
    assert_int_equal(stats_of(s->cache).lingering_entries, 1);
    assert_int_equal(kiln_cache_pin_many(s->cache, twice, 2, pins), KILN_MISS);
    assert_null(pins[0]);
    for (uint32_t i = 0; i < 100; i++) {
        kiln_key_release(&ready[i]);
    }
}

static void test_peeked_objects_stay_until_the_section_is_left(void **state)
{
    scene *s = *state;
    open_cache(s);
    for (uint32_t i = 0; i < 4; i++) {
        kiln_pin *pin = put_with(s, i, 10, 1, i + 1);
        kiln_pin_release(&pin);
    }
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    for (uint32_t i = 0; i < 4; i++) {
        assert_ptr_equal(kiln_cache_peek(&section, s->keys[i]), &s->objects[i]);
    }
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(kiln_cache_remove_group(s->cache, 2), 1);
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 1, NULL), KILN_OK);
    kiln_cache_clear(s->cache);
    assert_null(kiln_cache_peek(&section, s->keys[0]));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ends(s, i), 0);
    }
    assert_int_equal(stats_of(s->cache).lingering_entries, 4);
    assert_int_equal(kiln_cache_collect(s->cache), 0);
    kiln_section_leave(&section);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ends(s, i), 0);
    }
    assert_int_equal(kiln_cache_collect(s->cache), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ends(s, i), 1);
    }
    assert_int_equal(kiln_cache_collect(s->cache), 0);
    assert_int_equal(stats_of(s->cache).lingering_entries, 0);
    assert_int_equal(stats_of(s->cache).lingering_bytes, 0);
}

static void test_sections_nest(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    kiln_section outer;
    kiln_section inner;
    kiln_section_enter(s->cache, &outer);
    assert_non_null(kiln_cache_peek(&outer, s->keys[0]));
    kiln_section_enter(s->cache, &inner);
    assert_non_null(kiln_cache_peek(&inner, s->keys[0]));
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    kiln_section_leave(&inner);
    assert_int_equal(ends(s, 0), 0);
    assert_int_equal(kiln_cache_collect(s->cache), 0);
    kiln_section_leave(&outer);
    assert_int_equal(kiln_cache_collect(s->cache), 1);
    assert_int_equal(ends(s, 0), 1);
}

/* At every moment a section is open, but each section ends. Removed objects must still be
 * destroyed. */
static void test_overlapping_sections_do_not_keep_objects_for_ever(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    kiln_section sections[2];
    kiln_section_enter(s->cache, &sections[0]);
    assert_non_null(kiln_cache_peek(&sections[0], s->keys[0]));
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    for (int i = 1; i < 20; i++) {
        kiln_section_enter(s->cache, &sections[i % 2]);
        kiln_section_leave(&sections[(i + 1) % 2]);
    }
    assert_int_equal(kiln_cache_collect(s->cache), 1);
    assert_int_equal(ends(s, 0), 1);
    kiln_section_leave(&sections[1]);
}

/* A thread that only looks things up destroys no objects that other threads removed. */
static void test_a_thread_that_looks_up_destroys_nothing(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    put(s, 1, 10, 1);
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    kiln_section_leave(&section);
    for (int i = 0; i < 100; i++) {
        const kiln_key *keys[] = {s->keys[0], s->keys[1]};
        void *objects[2];
        kiln_pin *pins[2];
        kiln_section_enter(s->cache, &section);
        assert_non_null(kiln_cache_peek(&section, s->keys[1]));
        assert_int_equal(kiln_cache_peek_many(&section, keys, 2, objects), 1);
        kiln_section_leave(&section);
        kiln_pin *pin = pin_of(s, 1);
        assert_int_equal(kiln_cache_pin_many(s->cache, keys, 2, pins), KILN_MISS);
        kiln_pin_release(&pins[1]);
        kiln_pin_release(&pin);
    }
    assert_int_equal(ends(s, 0), 0);
    put(s, 2, 10, 1);
    assert_int_equal(ends(s, 0), 1);
}

static void ignore_event(void *user, const kiln_event *event);

/* The notice of a hit runs on the thread that looks up, but that thread still destroys nothing. */
static void test_a_reported_hit_destroys_nothing(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    put(s, 1, 10, 1);
    uint64_t id;
    assert_int_equal(kiln_cache_listen(s->cache, KILN_EVENT_HIT, ignore_event, NULL, &id), KILN_OK);
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    kiln_section_leave(&section);
    kiln_pin *pin = pin_of(s, 1);
    kiln_section_enter(s->cache, &section);
    for (int i = 0; i < 200; i++) {
        assert_non_null(kiln_cache_peek(&section, s->keys[1]));
    }
    kiln_section_leave(&section);
    assert_int_equal(ends(s, 0), 0);
    kiln_pin_release(&pin);
    assert_int_equal(kiln_cache_collect(s->cache), 1);
    kiln_cache_unlisten(s->cache, id);
}

static void test_destruction_can_be_deferred(void **state)
{
    scene *s = *state;
    open_cache_with(s,
                    (kiln_cache_params){.flags = KILN_CACHE_DEFER_DESTRUCTION, .max_entries = 3});
    kiln_pin *pin = put_with(s, 0, 10, 1, 0);
    for (uint32_t i = 1; i < 6; i++) {
        put(s, i, 10, 1);
    }
    kiln_cache_clear(s->cache);
    kiln_pin_release(&pin);
    assert_int_equal(stats_of(s->cache).lingering_entries, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(ends(s, i), 0);
    }
    assert_int_equal(kiln_cache_collect(s->cache), 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(ends(s, i), 1);
    }
    /* After the cache was freed, the release of the last pin destroys the object. */
    pin = put_with(s, 6, 10, 1, 0);
    put(s, 7, 10, 1);
    kiln_cache_free(&s->cache);
    assert_int_equal(ends(s, 7), 1);
    assert_int_equal(ends(s, 6), 0);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 6), 1);
}

static void test_a_pin_outlasts_the_section(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    assert_non_null(kiln_cache_peek(&section, s->keys[0]));
    kiln_pin *pin = pin_of(s, 0);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    kiln_section_leave(&section);
    assert_int_equal(ends(s, 0), 0);
    kiln_section_enter(s->cache, &section);
    kiln_pin_release(&pin);
    kiln_section_leave(&section);
    assert_int_equal(kiln_cache_collect(s->cache), 1);
    assert_int_equal(ends(s, 0), 1);
}

/* ---- pins and watches ---- */

static void test_pin_does_not_wait(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_pin *pin = NULL;
    assert_int_equal(kiln_cache_pin(s->cache, s->keys[0], &pin), KILN_MISS);
    kiln_ticket *ticket = own(s, 0);
    assert_int_equal(kiln_cache_pin(s->cache, s->keys[0], &pin), KILN_MISS);
    assert_null(pin);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[0], 10, 1, NULL), KILN_OK);
    assert_int_equal(kiln_cache_pin(s->cache, s->keys[0], &pin), KILN_OK);
    assert_ptr_equal(kiln_pin_object(pin), &s->objects[0]);
    kiln_pin_release(&pin);
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.hits, 1);
    assert_int_equal(stats.misses, 3);
}

static void test_an_object_lives_until_its_last_pin_is_released(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_pin *first = put_with(s, 0, 10, 1, 0);
    kiln_pin *second = kiln_pin_retain(first);
    assert_ptr_equal(second, first);
    kiln_cache_clear(s->cache);
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.entries, 0);
    assert_int_equal(stats.lingering_entries, 1);
    assert_int_equal(stats.lingering_bytes, 10);
    kiln_pin_release(&first);
    assert_null(first);
    assert_int_equal(ends(s, 0), 0);
    kiln_pin_release(&second);
    assert_int_equal(ends(s, 0), 1);
}

static void test_a_pin_does_not_keep_the_object_in_the_cache(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_entries = 1});
    kiln_pin *pin = put_with(s, 0, 10, 1, 0);
    put(s, 1, 10, 1);
    assert_false(is_ready(s, 0));
    assert_true(is_ready(s, 1));
    assert_int_equal(ends(s, 0), 0);
    /* The key can be built again while the old object still exists. */
    s->objects[2].value = value_of_key(0);
    kiln_ticket *ticket = own(s, 0);
    assert_int_equal(kiln_ticket_fulfil(&ticket, &s->objects[2], 10, 1, NULL), KILN_OK);
    kiln_pin *other = pin_of(s, 0);
    assert_ptr_equal(kiln_pin_object(other), &s->objects[2]);
    kiln_pin_release(&other);
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 0), 1);
    assert_int_equal(ends(s, 2), 0);
}

static void test_watches_expire_when_the_object_is_evicted(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_watch *watches[4];
    for (uint32_t i = 0; i < 4; i++) {
        kiln_pin *pin = put_with(s, i, 10, i + 1, i + 1);
        watches[i] = watch_of(pin);
        assert_true(kiln_watch_is_live(watches[i]));
        kiln_pin_release(&pin);
        assert_true(kiln_watch_is_live(watches[i]));
    }
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 1, NULL), KILN_OK);
    assert_false(kiln_watch_is_live(watches[0]));
    assert_true(kiln_watch_is_live(watches[1]));
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[1]), KILN_OK);
    assert_false(kiln_watch_is_live(watches[1]));
    assert_int_equal(kiln_cache_remove_group(s->cache, 3), 1);
    assert_false(kiln_watch_is_live(watches[2]));
    assert_true(kiln_watch_is_live(watches[3]));
    kiln_cache_free(&s->cache);
    assert_false(kiln_watch_is_live(watches[3]));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ends(s, i), 1);
        kiln_watch_free(&watches[i]);
        assert_null(watches[i]);
    }
}

static void test_watches_are_many_and_hold_nothing(void **state)
{
    scene *s = *state;
    open_cache(s);
    kiln_pin *pin = put_with(s, 0, 10, 1, 0);
    kiln_watch *first = watch_of(pin);
    kiln_watch *second = watch_of(pin);
    kiln_watch_free(&first);
    assert_true(kiln_watch_is_live(second));
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[0]), KILN_OK);
    assert_false(kiln_watch_is_live(second));
    kiln_watch *late = watch_of(pin);
    assert_false(kiln_watch_is_live(late));
    kiln_pin_release(&pin);
    assert_int_equal(ends(s, 0), 1);
    put(s, 0, 10, 1);
    assert_false(kiln_watch_is_live(second));
    kiln_watch_free(&second);
    kiln_watch_free(&late);
}

/* ---- statistics ---- */

static void test_statistics_fill_what_the_caller_has(void **state)
{
    scene *s = *state;
    open_cache(s);
    put(s, 0, 10, 1);
    kiln_cache_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    stats.struct_size = offsetof(kiln_cache_stats, bytes);
    assert_int_equal(kiln_cache_get_stats(s->cache, &stats), KILN_OK);
    assert_int_equal(stats.entries, 1);
    assert_int_equal(stats.bytes, 0x5a5a5a5a5a5a5a5a);
    assert_int_equal(stats.struct_size, offsetof(kiln_cache_stats, bytes));
    stats.struct_size = 0;
    assert_int_equal(kiln_cache_get_stats(s->cache, &stats), KILN_E_INVALID);
}

/* ---- out of memory ---- */

static void ignore_event(void *user, const kiln_event *event)
{
    (void)user;
    (void)event;
}

typedef kiln_status (*fallible_fn)(scene *s);

static kiln_status try_new(scene *s)
{
    (void)s;
    kiln_cache *cache = NULL;
    kiln_status status = kiln_cache_new(NULL, &cache);
    assert_true((status == KILN_OK) == (cache != NULL));
    kiln_cache_free(&cache);
    return status;
}

static kiln_status try_reserve(scene *s)
{
    kiln_reservation r = {0};
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_cache_reserve(s->cache, s->keys[0], NULL, &r, &error);
    if (status == KILN_OK) {
        kiln_ticket_fulfil(&r.ticket, &s->objects[0], 1, 1, &r.pin);
        kiln_pin_release(&r.pin);
        kiln_cache_remove(s->cache, s->keys[0]);
    } else {
        assert_int_equal(error.status, status);
        assert_null(r.ticket);
    }
    return status;
}

static kiln_status try_get_or_build(scene *s)
{
    recipe r = {.s = s, .key = 1};
    kiln_pin *pin = NULL;
    int before = ends(s, 1);
    kiln_status status = get(&r, &pin, NULL);
    assert_int_equal(r.calls, status == KILN_OK);
    kiln_pin_release(&pin);
    kiln_cache_remove(s->cache, s->keys[1]);
    assert_int_equal(ends(s, 1), before + r.calls);
    return status;
}

static kiln_status try_bypass(scene *s)
{
    kiln_cache_set_capacity(s->cache, 0, 0);
    return try_get_or_build(s);
}

static kiln_status try_retained_failure(scene *s)
{
    kiln_reservation r = {0};
    kiln_status status = kiln_cache_reserve(s->cache, s->keys[2], NULL, &r, NULL);
    if (status == KILN_OK) {
        kiln_ticket_abandon(&r.ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, "a text to keep");
        assert_int_equal(kiln_cache_reserve(s->cache, s->keys[2], NULL, &r, NULL), KILN_E_BUILD);
        assert_int_equal(kiln_cache_remove(s->cache, s->keys[2]), KILN_OK);
    }
    return status;
}

static kiln_status try_watch(scene *s)
{
    kiln_pin *pin = pin_of(s, 8);
    kiln_watch *watch = NULL;
    kiln_status status = kiln_pin_watch(pin, &watch);
    assert_int_equal(kiln_watch_is_live(watch), status == KILN_OK);
    kiln_watch_free(&watch);
    kiln_pin_release(&pin);
    return status;
}

static kiln_status try_pin(scene *s)
{
    kiln_pin *pin = NULL;
    kiln_status status = kiln_cache_pin(s->cache, s->keys[8], &pin);
    assert_true((status == KILN_OK) == (pin != NULL));
    kiln_pin_release(&pin);
    return status;
}

static kiln_status try_listen(scene *s)
{
    uint64_t id = 0;
    kiln_status status = kiln_cache_listen(s->cache, KILN_EVENT_INSERTED, ignore_event, NULL, &id);
    assert_true((status == KILN_OK) == (id != 0));
    kiln_cache_unlisten(s->cache, id);
    return status;
}

/* These calls can't fail for lack of memory. */
static kiln_status try_the_rest(scene *s)
{
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    assert_non_null(kiln_cache_peek(&section, s->keys[8]));
    assert_int_equal(kiln_cache_set_cost(s->cache, s->keys[8], 1), KILN_OK);
    assert_int_equal(kiln_cache_set_capacity(s->cache, 100, 100), KILN_OK);
    assert_int_equal(kiln_cache_set_policy(s->cache, KILN_POLICY_LRU), KILN_OK);
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 1, NULL), KILN_OK);
    kiln_cache_remove_group(s->cache, 1);
    assert_int_equal(kiln_cache_remove(s->cache, s->keys[9]), KILN_MISS);
    kiln_cache_clear(s->cache);
    kiln_section_leave(&section);
    assert_int_equal(kiln_cache_collect(s->cache), 1);
    assert_int_equal(ends(s, 8), 1);
    stats_of(s->cache);
    return KILN_E_NO_MEMORY;
}

/* Makes each allocation of a call fail in turn, each time in a new cache. */
static void fail_each_allocation(scene *s, fallible_fn try)
{
    for (size_t n = 1;; n++) {
        open_cache_with(s, (kiln_cache_params){.flags = KILN_CACHE_RETAIN_FAILURES});
        atomic_store(&s->objects[8].ends, 0);
        put(s, 8, 1, 1);
        failing_malloc_arm(n);
        kiln_status status = try(s);
        bool failed = failing_malloc_disarm() >= n;
        kiln_cache_stats stats = stats_of(s->cache);
        assert_int_equal(stats.reserved_bytes, 0);
        assert_int_equal(stats.lingering_entries, 0);
        kiln_cache_free(&s->cache);
        assert_int_equal(ends(s, 8), 1);
        if (!failed) {
            return;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
    }
}

static void test_no_call_leaks_or_breaks_without_memory(void **state)
{
    scene *s = *state;
    const fallible_fn tries[] = {try_new,    try_reserve, try_get_or_build,
                                 try_watch,  try_pin,     try_retained_failure,
                                 try_bypass, try_listen,  try_the_rest};
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        fail_each_allocation(s, tries[i]);
    }
}

/* A table that can't grow continues to work at its present size. */
static void test_full_table_survives_lack_of_memory(void **state)
{
    scene *s = *state;
    for (size_t n = 1;; n++) {
        open_cache(s);
        kiln_key *keys[300];
        for (uint32_t i = 0; i < 300; i++) {
            keys[i] = make_key(1000 + i);
        }
        size_t inserted = 0;
        failing_malloc_arm(n);
        for (uint32_t i = 0; i < 300; i++) {
            kiln_reservation r;
            if (kiln_cache_reserve(s->cache, keys[i], NULL, &r, NULL) == KILN_OK) {
                inserted += kiln_ticket_fulfil(&r.ticket, &s->objects[0], 1, 1, NULL) == KILN_OK;
            }
        }
        size_t allocations = failing_malloc_disarm();
        assert_true(inserted >= 299);
        assert_int_equal(stats_of(s->cache).entries, inserted);
        for (uint32_t i = 0; i < 300; i++) {
            kiln_key_release(&keys[i]);
        }
        kiln_cache_free(&s->cache);
        if (allocations < n) {
            break;
        }
    }
}

/* If the owner runs out of memory, no waiter hangs: one of them builds instead. */
static kiln_status run_out_of_memory(void *user, const kiln_key *key, kiln_built *ret_built,
                                     kiln_error *error)
{
    (void)key;
    (void)ret_built;
    (void)error;
    asker *waiter = user;
    start_asker(waiter, waiter->s, 0);
    until_waiting(waiter->s, 1);
    return KILN_E_NO_MEMORY;
}

static void test_waiters_survive_lack_of_memory_in_a_build(void **state)
{
    scene *s = *state;
    open_cache(s);
    asker waiter = {.s = s};
    kiln_pin *pin = NULL;
    assert_int_equal(
        kiln_cache_get_or_build(s->cache, s->keys[0], run_out_of_memory, &waiter, &pin, NULL),
        KILN_E_NO_MEMORY);
    join_asker(&waiter);
    assert_int_equal(waiter.reservation.outcome, KILN_OWNER);
    assert_int_equal(kiln_ticket_fulfil(&waiter.reservation.ticket, &s->objects[0], 1, 1, NULL),
                     KILN_OK);
    assert_true(is_ready(s, 0));
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* ---- listing ---- */

typedef struct seen_residents {
    kiln_cache *cache;
    unsigned times[200];
    unsigned used, count;
    bool removes; /* whether the callback removes each object that is listed */
} seen_residents;

static int see_resident(void *user, const kiln_resident *resident)
{
    seen_residents *seen = user;
    const test_object *object = resident->object;
    seen->times[resident->group]++;
    seen->used += resident->is_used == 1;
    seen->count++;
    assert_int_equal(resident->bytes, resident->group + 1);
    assert_int_equal(resident->cost_ns, 7);
    assert_true(object->value == value_of_key((uint32_t)resident->group));
    if (seen->removes) {
        assert_int_equal(kiln_cache_remove(seen->cache, resident->key), KILN_OK);
        assert_int_equal(atomic_load(&object->ends), 0);
    }
    return seen->count < 150 || seen->removes;
}

static void test_residents_are_listed_once(void **state)
{
    scene *s = *state;
    open_cache(s);
    static test_object objects[200];
    kiln_pin *pin = NULL;
    for (uint32_t i = 0; i < 200; i++) {
        objects[i] = (test_object){.value = value_of_key(i)};
        kiln_key *key = make_key(i);
        kiln_reserve_params params = {.struct_size = sizeof params, .group = i};
        kiln_reservation r;
        assert_int_equal(kiln_cache_reserve(s->cache, key, &params, &r, NULL), KILN_OK);
        assert_int_equal(kiln_ticket_fulfil(&r.ticket, &objects[i], i + 1, 7, i == 5 ? &pin : NULL),
                         KILN_OK);
        kiln_key_release(&key);
    }
    const uint64_t hits = stats_of(s->cache).hits;
    seen_residents seen = {.cache = s->cache};
    assert_int_equal(kiln_cache_visit(s->cache, see_resident, &seen), KILN_OK);
    assert_int_equal(seen.count, 150);
    seen = (seen_residents){.cache = s->cache, .removes = true};
    assert_int_equal(kiln_cache_visit(s->cache, see_resident, &seen), KILN_OK);
    assert_int_equal(seen.count, 200);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(seen.times[i], 1);
        assert_int_equal(atomic_load(&objects[i].ends), i == 5 ? 0 : 1);
    }
    assert_int_equal(seen.used, 1);
    assert_int_equal(stats_of(s->cache).hits, hits);
    assert_int_equal(stats_of(s->cache).entries, 0);
    assert_int_equal(kiln_cache_visit(NULL, see_resident, &seen), KILN_E_INVALID);
    assert_int_equal(kiln_cache_visit(s->cache, NULL, &seen), KILN_E_INVALID);
    kiln_pin_release(&pin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCENE(test_policies_have_names),
        IN_SCENE(test_policies_are_read_in_lower_or_upper_case),
        IN_SCENE(test_defaults_are_finite),
        IN_SCENE(test_wrong_parameters_are_refused),
        IN_SCENE(test_parameters_of_other_versions),
        IN_SCENE(test_free_takes_null_and_sets_null),
        IN_SCENE(test_free_destroys_what_has_no_pin),
        IN_SCENE(test_objects_may_need_no_destroy_function),
        IN_SCENE(test_a_destroy_function_may_use_the_cache),
        IN_SCENE(test_null_is_refused),
        IN_SCENE(test_equal_keys_share_one_object),
        IN_SCENE(test_many_keys),
        IN_SCENE(test_an_object_is_built_once),
        IN_SCENE(test_failed_build_is_reported_and_tried_again),
        IN_SCENE(test_a_failure_without_a_text_gets_one),
        IN_SCENE(test_success_without_an_object_is_a_failure),
        IN_SCENE(test_failures_are_retained_on_request),
        IN_SCENE(test_transient_failures_are_never_retained),
        IN_SCENE(test_a_build_with_a_positive_status_gives_no_pin),
        IN_SCENE(test_a_build_may_use_the_cache_for_other_keys),
        IN_SCENE(test_build_that_needs_itself_is_reported),
        IN_SCENE(test_uncacheable_object_is_built_for_its_caller),
        IN_SCENE(test_the_time_of_a_build_is_its_cost),
        IN_SCENE(test_peek_sees_what_is_ready),
        IN_SCENE(test_several_keys_at_once),
        IN_SCENE(test_a_thread_that_looks_up_destroys_nothing),
        IN_SCENE(test_a_reported_hit_destroys_nothing),
        IN_SCENE(test_destruction_can_be_deferred),
        IN_SCENE(test_peeked_objects_stay_until_the_section_is_left),
        IN_SCENE(test_sections_nest),
        IN_SCENE(test_overlapping_sections_do_not_keep_objects_for_ever),
        IN_SCENE(test_a_pin_outlasts_the_section),
        IN_SCENE(test_pin_does_not_wait),
        IN_SCENE(test_an_object_lives_until_its_last_pin_is_released),
        IN_SCENE(test_a_pin_does_not_keep_the_object_in_the_cache),
        IN_SCENE(test_watches_expire_when_the_object_is_evicted),
        IN_SCENE(test_watches_are_many_and_hold_nothing),
        IN_SCENE(test_statistics_fill_what_the_caller_has),
        IN_SCENE(test_no_call_leaks_or_breaks_without_memory),
        IN_SCENE(test_full_table_survives_lack_of_memory),
        IN_SCENE(test_waiters_survive_lack_of_memory_in_a_build),
        IN_SCENE(test_residents_are_listed_once),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
