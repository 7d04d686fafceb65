/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum { FIRST_BUCKET_COUNT = 64 };

kiln_status kilni_table_init(kilni_table *ret_table)
{
    kilni_slot **buckets = calloc(FIRST_BUCKET_COUNT, sizeof *buckets);
    if (!buckets) {
        return KILN_E_NO_MEMORY;
    }
    *ret_table = (kilni_table){.buckets = buckets, .bucket_count = FIRST_BUCKET_COUNT};
    return KILN_OK;
}

void kilni_table_fini(kilni_table *table)
{
    free(table->buckets);
    *table = (kilni_table){0};
}

static uint64_t hash_of(const kiln_key *key)
{
    kiln_digest digest = kiln_key_digest(key);
    uint64_t hash;
    memcpy(&hash, digest.bytes, sizeof hash);
    return hash;
}

void kilni_slot_init(kilni_slot *slot, const kiln_key *key, uint64_t group, kilni_slot_state state)
{
    *slot = (kilni_slot){
        .key = kiln_key_retain(key), .hash = hash_of(key), .group = group, .state = state};
}

static kilni_slot **bucket_of(const kilni_table *table, uint64_t hash)
{
    return &table->buckets[hash & (table->bucket_count - 1)];
}

kilni_slot *kilni_table_find(const kilni_table *table, const kiln_key *key)
{
    uint64_t hash = hash_of(key);
    kilni_slot *slot = *bucket_of(table, hash);
    while (slot && !(slot->hash == hash && kiln_key_equals(slot->key, key))) {
        slot = slot->next;
    }
    return slot;
}

static void push(const kilni_table *table, kilni_slot *slot)
{
    kilni_slot **bucket = bucket_of(table, slot->hash);
    slot->next = *bucket;
    *bucket = slot;
}

static void grow(kilni_table *table)
{
    kilni_table larger = *table;
    if (!kilni_size_multiply(table->bucket_count, 2, &larger.bucket_count)) {
        return;
    }
    larger.buckets = calloc(larger.bucket_count, sizeof *larger.buckets);
    if (!larger.buckets) {
        return;
    }
    for (size_t i = 0; i < table->bucket_count; i++) {
        kilni_slot *slot = table->buckets[i];
        while (slot) {
            kilni_slot *next = slot->next;
            push(&larger, slot);
            slot = next;
        }
    }
    free(table->buckets);
    *table = larger;
}

void kilni_table_insert(kilni_table *table, kilni_slot *slot)
{
    if (table->slot_count >= table->bucket_count) {
        grow(table);
    }
    push(table, slot);
    table->slot_count++;
}

void kilni_table_remove(kilni_table *table, kilni_slot *slot)
{
    kilni_slot **link = bucket_of(table, slot->hash);
    while (*link != slot) {
        link = &(*link)->next;
    }
    *link = slot->next;
    slot->next = NULL;
    table->slot_count--;
}

kilni_slot *kilni_table_next(const kilni_table *table, const kilni_slot *slot)
{
    if (slot && slot->next) {
        return slot->next;
    }
    size_t bucket = slot ? (size_t)(slot->hash & (table->bucket_count - 1)) + 1 : 0;
    while (bucket < table->bucket_count && !table->buckets[bucket]) {
        bucket++;
    }
    return bucket < table->bucket_count ? table->buckets[bucket] : NULL;
}
