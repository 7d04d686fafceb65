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
            .name = name, .head_size = ahead->head_size, .is_about_use = true};
        ahead->wholes[i] = (kilni_remote_question){.name = name};
    }
    ahead->count = count;
    ahead->was_asked = false;
    ahead->has_heads = false;
    ahead->next = 0;
    ahead->window = is_in_order ? ahead->window : 0;
}

static bool ask(kilni_read_ahead *ahead, kilni_remote_question *questions, size_t count,
                uint64_t max_bytes, uint64_t deadline_ns)
{
    return ahead->connector->get_many &&
           ahead->connector->get_many(ahead->remote, questions, count, max_bytes, deadline_ns) ==
               KILN_OK;
}

const kilni_remote_question *kilni_read_ahead_head(kilni_read_ahead *ahead, size_t place,
                                                   uint64_t deadline_ns)
{
    if (!ahead->was_asked) {
        ahead->was_asked = true;
        ahead->has_heads =
            ask(ahead, ahead->heads, ahead->count,
                ahead->count * KILNI_REMOTE_HEAD_BYTES(ahead->head_size), deadline_ns);
    }
    return ahead->has_heads ? &ahead->heads[place] : NULL;
}

/* Returns how many entries, beginning at @place, one request is allowed to ask for. Sets @ret_bytes
 * to the maximum size of the replies. */
static size_t count_wanted(const kilni_read_ahead *ahead, size_t place, uint64_t *ret_bytes)
{
    uint64_t bytes = 0;
    size_t count = 0;
    while (ahead->has_heads && count < ahead->window && place + count < ahead->count) {
        const kilni_remote_question *head = &ahead->heads[place + count];
        if (head->status != KILN_OK || head->whole_size > BYTES_MAX - bytes ||
            ahead->wholes[place + count].bytes.data) {
            break;
        }
        bytes += head->whole_size;
        count++;
    }
    *ret_bytes = bytes + count * KILNI_REMOTE_REPLY_BYTES;
    return count;
}

/* Asks for several complete entries together, beginning at @place. The first call asks for nothing,
 * so that the caller reads a single entry. After that, as long as the caller reads the entries in
 * order, each request asks for twice as many entries as the previous one. */
static void read_from(kilni_read_ahead *ahead, size_t place, uint64_t deadline_ns)
{
    const size_t doubled = place == ahead->next && ahead->window > 0 ? 2 * ahead->window : 1;
    ahead->window = doubled < WINDOW_MAX ? doubled : WINDOW_MAX;
    uint64_t bytes;
    const size_t count = count_wanted(ahead, place, &bytes);
    if (count > 1 && !ask(ahead, &ahead->wholes[place], count, bytes, deadline_ns)) {
        ahead->window = 1;
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
