/* SPDX-License-Identifier: Apache-2.0 */
#include "included_files.h"

#include <pthread.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/store_tools.h>

#include "base/bytes.h"
#include "device/file_content.h"
#include "device/watch/inputs.h"
#include "device/watch/path_lookup.h"
#include "device/watch/stored_reads.h"
#include "os/thread.h"
#include "session.h"

/* Larger files are not kept. */
#define FILE_BYTES_MAX (16u << 20)

/* If the names of more files wait, the thread that builds keeps the next ones itself. */
#define WAITING_BYTES_MAX (16u << 20)

#define DRAIN_SECONDS 10

/* ---- which files this process has kept ---- */

/* A program's kernels include the same files, so most files are looked up in memory only. A file
 * that the store has removed since then is not kept again. */
enum { KEPT_SLOTS = 2048 };

/* Guards the slots. A thread that cannot have the lock at once looks the file up in the store. So a
 * child that was forked while the lock was held works too. */
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char kept[KEPT_SLOTS][KILNI_FILE_DIGEST_BYTES]; /* a file has one slot, from which
                                                                   it displaces others */

static unsigned char *kept_slot(const unsigned char *digest)
{
    return kept[(digest[0] | (size_t)digest[1] << 8) % KEPT_SLOTS];
}

static bool is_kept(const unsigned char *digest)
{
    if (pthread_mutex_trylock(&kept_lock) != 0) {
        return false;
    }
    const bool is = memcmp(kept_slot(digest), digest, KILNI_FILE_DIGEST_BYTES) == 0;
    pthread_mutex_unlock(&kept_lock);
    return is;
}

static void note_kept(const unsigned char *digest)
{
    if (pthread_mutex_trylock(&kept_lock) == 0) {
        memcpy(kept_slot(digest), digest, KILNI_FILE_DIGEST_BYTES);
        pthread_mutex_unlock(&kept_lock);
    }
}

/* ---- keeping ---- */

static kiln_status put_file(kiln_store *included, const char *path, const unsigned char *digest)
{
    kilni_file_content file;
    kiln_status status = kilni_file_content_read(path, FILE_BYTES_MAX, &file);
    if (status == KILN_OK) {
        status = kiln_included_put(included, digest, (kiln_bytes){file.bytes, file.size});
        kilni_file_content_done(&file);
    }
    return status;
}

static void keep_file(kiln_store *included, const char *path, const unsigned char *digest)
{
    if (is_kept(digest)) {
        return;
    }
    kiln_status status = kiln_included_contains(included, digest);
    if (status == KILN_MISS) {
        status = put_file(included, path, digest);
    }
    if (status == KILN_OK) {
        note_kept(digest);
    }
}

static void keep_all(kiln_store *included, kiln_bytes reads, const char *program_name)
{
    kilni_byte_reader reader = {.at = reads.data, .left = reads.size};
    const char *only_folder = NULL;
    uint32_t count = 0;
    kilni_stored_read read;
    if (kilni_stored_reads_decode_header(&reader, &only_folder, &count) != KILN_OK) {
        return;
    }
    for (; count > 0 && kilni_stored_reads_decode_next(&reader, &read) == KILN_OK; count--) {
        char path[PATH_MAX];
        const size_t folder_length =
            read.is_relative ? kilni_program_folder_length(program_name) : 0;
        const int length = snprintf(path, sizeof path, "%.*s%s", (int)folder_length,
                                    folder_length > 0 ? program_name : "", read.path);
        if (read.what == KILN_FOUND_FILE && length > 0 && (size_t)length < sizeof path) {
            keep_file(included, path, read.digest);
        }
    }
}

static bool may_keep(void)
{
    return session_requests() && session_can_store() && session_config()->included_max_bytes > 0;
}

/* The store is opened for each result, and closed again, because that saves its totals, and so
 * keeps it below its limit. */
static kiln_status open_included(kiln_store **ret_included)
{
    return kiln_included_open(session_requests()->store, session_config()->included_max_bytes,
                              ret_included);
}

static void keep_result(kiln_bytes reads, const char *program_name)
{
    kiln_store *included = NULL;
    if (open_included(&included) == KILN_OK) {
        keep_all(included, reads, program_name);
        kiln_store_close(&included);
    }
}

/* ---- the thread ---- */

/* A result whose files are to be kept. */
typedef struct waiting_result {
    struct waiting_result *next;
    char *program_name; /* may be NULL */
    size_t size;
    unsigned char reads[];
} waiting_result;

/* Guards the fields below. In a forked child, nothing takes it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static waiting_result *first, *last;
static size_t waiting_bytes;
static bool is_running; /* a thread keeps results, until none waits */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

static waiting_result *result_new(kiln_bytes reads, const char *program_name)
{
    waiting_result *result = malloc(sizeof *result + reads.size);
    if (!result) {
        return NULL;
    }
    *result = (waiting_result){.program_name = program_name ? strdup(program_name) : NULL,
                               .size = reads.size};
    memcpy(result->reads, reads.data, reads.size);
    if (program_name && !result->program_name) {
        free(result);
        return NULL;
    }
    return result;
}

static void result_free(waiting_result *result)
{
    free(result->program_name);
    free(result);
}

/* Returns NULL, and notes that the thread ends, if no result waits. */
static waiting_result *take_first(void)
{
    pthread_mutex_lock(&lock);
    waiting_result *result = first;
    if (result) {
        first = result->next;
        waiting_bytes -= result->size;
    } else {
        is_running = false;
        pthread_cond_broadcast(&ended);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void *run(void *unused)
{
    waiting_result *result;
    pthread_setname_np(pthread_self(), "kiln-included");
    while ((result = take_first()) != NULL) {
        keep_result((kiln_bytes){result->reads, result->size}, result->program_name);
        result_free(result);
    }
    return unused;
}

/* Called with the lock held. Returns false if a thread is needed and cannot be started. */
static bool start_thread(void)
{
    pthread_t thread;
    if (!is_running && kilni_thread_start(run, NULL, &thread)) {
        is_running = true;
        pthread_detach(thread);
    }
    return is_running;
}

/* Returns false if the caller has to keep the files itself. */
static bool leave_to_thread(kiln_bytes reads, const char *program_name)
{
    waiting_result *result = result_new(reads, program_name);
    if (!result) {
        return false;
    }
    pthread_mutex_lock(&lock);
    const bool is_left = waiting_bytes <= WAITING_BYTES_MAX && start_thread();
    if (is_left) {
        *(first ? &last->next : &first) = result;
        last = result;
        waiting_bytes += result->size;
    }
    pthread_mutex_unlock(&lock);
    if (!is_left) {
        result_free(result);
    }
    return is_left;
}

void included_files_keep(kiln_bytes reads, const char *program_name)
{
    if (may_keep() &&
        /* A second thread makes each getc of the program slower: see kilni_writer_spare_thread. */
        (kilni_is_single_threaded() || !leave_to_thread(reads, program_name))) {
        keep_result(reads, program_name);
    }
}

void included_files_keep_input(kiln_bytes content)
{
    unsigned char digest[KILNI_FILE_DIGEST_BYTES];
    kiln_store *included = NULL;
    if (content.size <= FILE_BYTES_MAX && may_keep() && open_included(&included) == KILN_OK) {
        crypto_generichash(digest, sizeof digest, content.data, content.size, NULL, 0);
        if (kiln_included_contains(included, digest) == KILN_MISS) {
            kiln_included_put(included, digest, content);
        }
        kiln_store_close(&included);
    }
}

void included_files_drain(void)
{
    if (session_is_forked()) {
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DRAIN_SECONDS;
    pthread_mutex_lock(&lock);
    while (is_running && pthread_cond_timedwait(&ended, &lock, &until) == 0) {
    }
    pthread_mutex_unlock(&lock);
}
