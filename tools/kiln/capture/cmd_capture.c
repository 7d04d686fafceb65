/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/opencl.h>
#include <kiln/store_tools.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/low_priority.h"
#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/progress.h"
#include "capture_worker.h"
#include "replay_request.h"

static const char usage[] =
    "Usage: kiln capture [--dir DIR] [--key-file FILE] [--wait-ms N] [--idle] [--json]\n"
    "\n"
    "Repeats builds that programs left as requests, on runtimes such as PoCL that cannot return\n"
    "a result without stalling the program, and stores the results. Programs start this command\n"
    "automatically.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --wait-ms N      how long to wait if another kiln capture is working here; default: 0\n"
    "  --idle           run at the lowest CPU and I/O priority\n"
    "  --json           one JSON object\n";

#define NS_PER_MS UINT64_C(1000000)

typedef struct capture_work {
    const cache_directory *directory;
    uint64_t served, dropped, failed, expired, left;
    bool takes_replays;        /* this walk serves only those; otherwise only captures */
    bool is_blocked;           /* the store accepts nothing now */
    bool has_found;            /* this walk has found a request that was not tried yet */
    kiln_digest *left_digests; /* requests that stay in the store; a run tries each of them only
                                  once */
    size_t left_digest_count;
} capture_work;

/* A request that failed is tried several times, because the driver's failure might have been
 * temporary. */
#define ATTEMPTS_MAX 3

/* ---- serving requests ---- */

/* If a request cannot be removed, no more requests are served, because the same request would be
 * served again and again. */
static void remove_request(capture_work *work, const kiln_entry *request)
{
    kiln_status status = kiln_store_remove(work->directory->store, kiln_entry_key(request));
    work->is_blocked |= status != KILN_OK && status != KILN_MISS && status != KILN_EXISTS;
}

/* Replaces the request with an empty one, so that programs do not leave the same request again each
 * time they run. */
static void give_up(capture_work *work, const kiln_entry *request)
{
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = kiln_entry_key(request),
        .kind = KILN_ENTRY_REQUEST,
        .provenance = {.struct_size = sizeof params.provenance,
                       .device = kiln_entry_provenance(request).device},
    };
    kiln_entry *given_up = NULL;
    if (kiln_entry_new(&params, &given_up) != KILN_OK ||
        kiln_store_put(work->directory->store, given_up) != KILN_OK) {
        remove_request(work, request);
    }
    kiln_entry_release(&given_up);
}

static void mark_left(capture_work *work, const kiln_digest *digest)
{
    work->left_digests = must(
        reallocarray(work->left_digests, work->left_digest_count + 1, sizeof *work->left_digests));
    work->left_digests[work->left_digest_count++] = *digest;
}

static bool is_left(const capture_work *work, const kiln_digest *digest)
{
    for (size_t i = 0; i < work->left_digest_count; i++) {
        if (memcmp(&work->left_digests[i], digest, sizeof *digest) == 0) {
            return true;
        }
    }
    return false;
}

static capture_result try_to_serve(const capture_work *work, const kiln_entry *request)
{
    capture_result result = CAPTURE_FAILED;
    for (int i = 0; result == CAPTURE_FAILED && i < ATTEMPTS_MAX; i++) {
        result = capture_in_worker(work->directory->path, request);
    }
    return result;
}

static void serve(capture_work *work, const kiln_entry *request, const kiln_digest *digest)
{
    switch (try_to_serve(work, request)) {
    case CAPTURE_SERVED:
        work->served++;
        remove_request(work, request);
        break;
    case CAPTURE_DROPPED:
        work->dropped++;
        remove_request(work, request);
        break;
    case CAPTURE_FAILED:
    case CAPTURE_ENDLESS:
        work->failed++;
        give_up(work, request);
        break;
    case CAPTURE_INTERRUPTED:
        work->left++;
        mark_left(work, digest);
        break;
    case CAPTURE_LEFT:
        work->left++;
        work->is_blocked = true;
        break;
    }
}

/* ---- finding requests ---- */

static bool has_expired(const kiln_item_info *info)
{
    const int64_t now_s = time(NULL);
    return info->created_s < now_s - KILN_OPENCL_REQUEST_AGE_S ||
           info->created_s > now_s + KILN_OPENCL_REQUEST_AGE_S;
}

/* A replay that was interrupted is left to a later helper. */
static void serve_replay(capture_work *work, const kiln_entry *request, const kiln_digest *digest)
{
    if (replay_request_serve(work->directory->path, request)) {
        remove_request(work, request);
    } else {
        work->left++;
        mark_left(work, digest);
    }
}

static void serve_item(capture_work *work, kiln_item *item, const kiln_digest *digest)
{
    kiln_entry *request = NULL;
    const kiln_status status = kiln_item_read(item, &request);
    if (status == KILN_OK) {
        const bool is_replay = replay_request_is(request);
        if (is_replay == work->takes_replays) {
            work->has_found = true;
            progress_step("served");
            (is_replay ? serve_replay : serve)(work, request, digest);
        }
        kiln_entry_release(&request);
    } else if (status == KILN_E_CORRUPT || status == KILN_E_UNAUTHENTICATED) {
        work->dropped += kiln_item_remove(item) == KILN_OK;
    }
}

/* Serves the item if it is an open request. Removes requests that have expired, are damaged or lack
 * the required signature, because each program that found such a request would start another helper
 * for it. Only one request is in memory at any time. */
static int visit(void *user, kiln_item *item)
{
    capture_work *work = user;
    kiln_item_info info = {.struct_size = sizeof info};
    if (kiln_item_get_info(item, &info) != KILN_OK) {
        return 0; /* it was removed meanwhile */
    }
    const bool is_request = info.state == KILN_OK && info.kind == KILN_ENTRY_REQUEST;
    if (info.state == KILN_E_CORRUPT) {
        work->dropped += kiln_item_remove(item) == KILN_OK;
    } else if (is_request && has_expired(&info)) {
        work->expired += kiln_item_remove(item) == KILN_OK;
    } else if (is_request && info.bytes > 0 && !is_left(work, &info.digest)) {
        serve_item(work, item, &info.digest);
    }
    return work->is_blocked;
}

/* Walks through the store once, and serves the requests that it finds. Returns false if there were
 * none, or if no more requests can be served. */
static bool serve_found(capture_work *work, bool takes_replays)
{
    work->has_found = false;
    work->takes_replays = takes_replays;
    kiln_store_each_request(work->directory->store, visit, work);
    progress_hide();
    return work->has_found && !work->is_blocked;
}

/* ---- one at a time ---- */

static kiln_status lease_turn(kiln_store *store, uint64_t wait_ms, kiln_lease **ret_lease)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    must_succeed(kiln_key_builder_new(&builder));
    must_succeed(kiln_key_builder_add_text(builder, "helper", "capture"));
    must_succeed(kiln_key_builder_finish(builder, &key));
    kiln_key_builder_free(&builder);
    kiln_status status = kiln_store_lease(store, key, wait_ms * NS_PER_MS, ret_lease);
    kiln_key_release(&key);
    return status;
}

static void print_work(const capture_work *work, bool json)
{
    if (json) {
        json_t *object = must(json_object());
        json_add(object, "served", json_number(work->served));
        json_add(object, "dropped", json_number(work->dropped));
        json_add(object, "failed", json_number(work->failed));
        json_add(object, "expired", json_number(work->expired));
        json_add(object, "left", json_number(work->left));
        json_print(stdout, object);
        return;
    }
    if (work->served + work->dropped + work->failed + work->expired + work->left == 0) {
        puts("no builds are waiting to be captured");
        return;
    }
    owned char *left =
        work->left == 0 ? must(strdup("")) : text_of(", %" PRIu64 " left", work->left);
    printf("%" PRIu64 " captured, %" PRIu64 " dropped, %" PRIu64 " failed, %" PRIu64 " expired%s\n",
           work->served, work->dropped, work->failed, work->expired, left);
}

/* Trims the store to its limit. This also removes temporary files of writers that exited before
 * they had finished. Otherwise, these files would stay until the store is full. */
static void tidy(const cache_directory *directory)
{
    const uint64_t max_bytes = directory->max_bytes;
    const kiln_trim_params params = {.struct_size = sizeof params,
                                     .flags = max_bytes == 0 ? 0 : KILN_TRIM_BY_SIZE,
                                     .max_bytes = max_bytes};
    kiln_store_trim(directory->store, &params, NULL);
}

static int serve_all(const cache_directory *directory, uint64_t wait_ms, bool replays, bool json)
{
    capture_work work = {.directory = directory};
    kiln_lease *turn = NULL;
    kiln_status status =
        directory->store == NULL ? KILN_OK : lease_turn(directory->store, wait_ms, &turn);
    if (status == KILN_BUSY) {
        complain(
            "another kiln capture is still working in %s; if programs started it, it runs only "
            "on idle processors",
            directory->path);
        return EXIT_NOTHING_FOUND;
    }
    /* On a file system without locks, two processes can capture at the same time. This does no
     * harm, because both store the same results. */
    if (status != KILN_OK && status != KILN_E_UNSUPPORTED) {
        return complain_of_status(directory->path, status);
    }
    /* Replays take long, so captures come first. Only programs start replays, and not users. */
    while (directory->store != NULL &&
           (serve_found(&work, false) || (replays && serve_found(&work, true)))) {
    }
    tidy(directory);
    kiln_lease_release(&turn);
    free(work.left_digests);
    print_work(&work, json);
    return work.is_blocked ? EXIT_IO : EXIT_OK;
}

int cmd_capture(int argc, char **argv)
{
    const char *wait = "0";
    const char *parent = NULL;
    bool idle = false;
    command_line line = {
        .usage = usage,
        .options = {{.name = "wait-ms", .text = &wait},
                    {.name = "idle", .flag = &idle},
                    {.name = "serve", .text = &parent}},
    };
    options_read(&line, argc, argv);
    const uint64_t wait_ms = options_wait_ms(argv[0], wait);
    if (idle) {
        low_priority_set();
    }
    if (parent != NULL) {
        return capture_worker(line.directory, parent);
    }
    owned_directory directory = {0};
    const int exit_code = directory_try_open(line.directory, KILN_STORE_NO_CREATE, &directory);
    return exit_code == EXIT_OK ? serve_all(&directory, wait_ms, idle, line.json) : exit_code;
}
