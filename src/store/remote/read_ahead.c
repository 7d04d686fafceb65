/* SPDX-License-Identifier: Apache-2.0 */
#include "store/remote/read_ahead.h"

#include <stdlib.h>

/* The maximum number of entries, and the maximum size of entries, in one request. These limit how
 * much memory a walk uses, and how much it reads in vain if it ends early. */
#define WINDOW_MAX 16u
#define BYTES_MAX (UINT64_C(1) << 20)

void kilni_read_ahead_begin(kilni_read_ahead *ahead, size_t count)
{
    const bool is_in_order = ahead->count > 0 && ahead->next == ahead->count;
    for (size_t i = 0; i < count; i++) {
        const char *name = ahead->heads[i].name;
        ahead->heads[i] = (kilni_remote_question){
            .name = name,
            .head_size = ahead->head_size,
            .max_bytes = KILNI_REMOTE_HEAD_BYTES(ahead->head_size),
            .is_about_use = ahead->connector->knows_uses,
            .unused_s = UINT64_MAX,
            .left_s = UINT64_MAX,
        };
        ahead->wholes[i] = (kilni_remote_question){.name = name};
    }
    ahead->count = count;
    ahead->was_asked = false;
    ahead->next = 0;
    ahead->window = is_in_order ? ahead->window : 0;
}

static bool is_answer(const kilni_remote_question *question)
{
    return question->status == KILN_OK || question->status == KILN_MISS;
}

const kilni_remote_question *kilni_read_ahead_head(kilni_read_ahead *ahead, size_t place,
                                                   uint64_t deadline_ns)
{
    if (!ahead->was_asked && ahead->connector->ask_many) {
        ahead->connector->ask_many(ahead->remote, ahead->heads, ahead->count, deadline_ns);
        ahead->was_asked = true;
    }
    return ahead->was_asked && is_answer(&ahead->heads[place]) ? &ahead->heads[place] : NULL;
}

/* Returns how many entries, beginning at @place, one request is allowed to ask for. Sets the room
 * for their answers. */
static size_t count_wanted(kilni_read_ahead *ahead, size_t place)
{
    uint64_t bytes = 0;
    size_t count = 0;
    while (ahead->was_asked && count < ahead->window && place + count < ahead->count) {
        const kilni_remote_question *head = &ahead->heads[place + count];
        kilni_remote_question *whole = &ahead->wholes[place + count];
        if (head->status != KILN_OK || head->whole_size > BYTES_MAX - bytes || whole->bytes.data) {
            break;
        }
        whole->max_bytes = head->whole_size + KILNI_REMOTE_REPLY_BYTES;
        bytes += head->whole_size;
        count++;
    }
    return count;
}

/* Asks for several complete entries together, beginning at @place. The first call asks for nothing,
 * so that the caller reads a single entry. After that, as long as the caller reads the entries in
 * order, each request asks for twice as many entries as the previous one. */
static void read_from(kilni_read_ahead *ahead, size_t place, uint64_t deadline_ns)
{
    const size_t doubled = place == ahead->next && ahead->window > 0 ? 2 * ahead->window : 1;
    ahead->window = doubled < WINDOW_MAX ? doubled : WINDOW_MAX;
    const size_t count = count_wanted(ahead, place);
    if (count > 1) {
        ahead->connector->ask_many(ahead->remote, &ahead->wholes[place], count, deadline_ns);
        ahead->window = is_answer(&ahead->wholes[place]) ? ahead->window : 1;
    }
}

bool kilni_read_ahead_take(kilni_read_ahead *ahead, size_t place, uint64_t deadline_ns,
                           kilni_remote_bytes *ret_bytes)
{
    kilni_remote_question *whole = &ahead->wholes[place];
    if (!whole->bytes.data) {
        read_from(ahead, place, deadline_ns);
    }
    ahead->next = place + 1;
    const bool is_there = whole->bytes.data != NULL;
    if (is_there) {
        *ret_bytes = whole->bytes;
        whole->bytes = (kilni_remote_bytes){.data = NULL};
    }
    return is_there;
}

void kilni_read_ahead_end(kilni_read_ahead *ahead)
{
    for (size_t i = 0; i < ahead->count; i++) {
        free(ahead->heads[i].bytes.data);
        free(ahead->wholes[i].bytes.data);
    }
}
