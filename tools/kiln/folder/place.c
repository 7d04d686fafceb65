/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../text/memory.h"
#include "file_tree.h"

#define NAME_SIZE 128

/* Between attempts to get a lock. */
#define PAUSE_MS 5

/* Of the names of sockets. One that is older than NEW_SECONDS listens, or its run was killed. */
#define SOCKET_PREFIX "ask-"
#define NEW_SECONDS 60

/* The largest list of known files that is read. */
#define KNOWN_MAX ((size_t)64 << 20)

static bool is_private(const struct stat *status)
{
    return S_ISDIR(status->st_mode) && status->st_uid == geteuid() &&
           (status->st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

static int open_private(int parent, const char *name)
{
    struct stat status;
    if (mkdirat(parent, name, 0700) != 0 && errno != EEXIST) {
        return -1;
    }
    const int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && (fstat(folder, &status) != 0 || !is_private(&status))) {
        close(folder);
        return -1;
    }
    return folder;
}

static bool is_empty(int folder)
{
    const int opened = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = opened < 0 ? NULL : fdopendir(opened);
    const struct dirent *item = NULL;
    while (stream != NULL && (item = readdir(stream)) != NULL &&
           (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)) {
    }
    const bool has_ended = stream != NULL && item == NULL;
    if (stream != NULL) {
        closedir(stream);
    }
    return has_ended;
}

/* Kiln empties folders of the place. So a place must have been empty when Kiln first used it, which
 * this file says. */
#define MARK ".kiln-folders"

static bool is_marked(int place)
{
    struct stat status;
    return fstatat(place, MARK, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

char *place_reason_against(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0) {
        return errno == ENOENT ? NULL : text_of("%s: %s", path, strerror(errno));
    }
    if (!is_private(&status)) {
        return text_of("%s must be a folder to which only this user has any right", path);
    }
    const int place = open_private(AT_FDCWD, path);
    const bool is_own = place >= 0 && (is_marked(place) || is_empty(place));
    if (place >= 0) {
        close(place);
    }
    return is_own ? NULL : text_of("%s has files that Kiln has not made", path);
}

int place_open(const char *path)
{
    const int place = open_private(AT_FDCWD, path);
    if (place < 0 || is_marked(place)) {
        return place;
    }
    const int mark =
        is_empty(place)
            ? openat(place, MARK, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
            : -1;
    if (mark >= 0) {
        close(mark);
    }
    /* A different process may have been faster. */
    if (!is_marked(place)) {
        close(place);
        return -1;
    }
    return place;
}

int place_open_folder(int place, const folder_cache *cache)
{
    return open_private(place, cache->name);
}

int place_lock(int place, const folder_cache *cache, int wait_ms)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s.lock", cache->name);
    const int lock = openat(place, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    for (int waited = 0; lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0; waited += PAUSE_MS) {
        if (waited >= wait_ms) {
            close(lock);
            return -1;
        }
        poll(NULL, 0, PAUSE_MS);
    }
    return lock;
}

/* ---- users ---- */

const char *place_run_name(void)
{
    static char name[2 * sizeof(uint64_t) + 1];
    if (name[0] == '\0') {
        uint64_t number = 0;
        must_succeed(getentropy(&number, sizeof number));
        snprintf(name, sizeof name, "%016" PRIx64, number);
    }
    return name;
}

static void own_name(const folder_cache *cache, char *name)
{
    snprintf(name, NAME_SIZE, "%s.run-%s", cache->name, place_run_name());
}

static bool is_locked(int place, const char *name)
{
    const int file = openat(place, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const bool is_free = file >= 0 && flock(file, LOCK_SH | LOCK_NB) == 0;
    if (file >= 0) {
        close(file);
    }
    return file >= 0 && !is_free;
}

typedef void visit_name(int place, const char *name, void *user);

/* Calls @visit for each name in the place that begins with @prefix. */
static void each_name(int place, const char *prefix, visit_name *visit, void *user)
{
    const int opened = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = opened < 0 ? NULL : fdopendir(opened);
    const struct dirent *item;
    while (stream != NULL && (item = readdir(stream)) != NULL) {
        if (strncmp(item->d_name, prefix, strlen(prefix)) == 0) {
            visit(place, item->d_name, user);
        }
    }
    if (stream != NULL) {
        closedir(stream);
    }
}

/* Calls @visit for the file of each program that uses, or has used, the folder. */
static void each_run(int place, const folder_cache *cache, visit_name *visit, void *user)
{
    char prefix[NAME_SIZE];
    snprintf(prefix, sizeof prefix, "%s.run-", cache->name);
    each_name(place, prefix, visit, user);
}

typedef struct run_count {
    const char *own; /* does not count */
    place_users users;
} run_count;

static void count_run(int place, const char *name, void *user)
{
    run_count *count = user;
    if (strcmp(name, count->own) != 0) {
        const bool locked = is_locked(place, name);
        count->users.is_used |= locked;
        count->users.is_doubtful |= !locked;
    }
}

place_users place_survey(int place, const folder_cache *cache, bool has_own)
{
    char own[NAME_SIZE] = "";
    run_count count = {.own = own};
    if (has_own) {
        own_name(cache, own);
    }
    each_run(place, cache, count_run, &count);
    return count.users;
}

static void remove_run(int place, const char *name, void *user)
{
    (void)user;
    if (!is_locked(place, name)) {
        unlinkat(place, name, 0);
    }
}

void place_empty(int place, const folder_cache *cache)
{
    file_tree_remove(place, cache->name);
    each_run(place, cache, remove_run, NULL);
}

int place_enter(int place, const folder_cache *cache)
{
    char name[NAME_SIZE];
    own_name(cache, name);
    const int own = openat(place, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (own >= 0 && flock(own, LOCK_EX | LOCK_NB) != 0) {
        close(own);
        return -1;
    }
    return own;
}

void place_leave(int place, const folder_cache *cache)
{
    char name[NAME_SIZE];
    own_name(cache, name);
    unlinkat(place, name, 0);
}

/* ---- sockets ---- */

char *place_socket_path(const char *path)
{
    return text_of("%s/" SOCKET_PREFIX "%s", path, place_run_name());
}

/* Removes a socket if no process listens to it. One that is new may not listen yet. */
static void remove_socket(int place, const char *name, void *user)
{
    struct stat status;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)user;
    const int tried = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", place, name);
    if (tried >= 0 && fstatat(place, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISSOCK(status.st_mode) && status.st_mtime < time(NULL) - NEW_SECONDS &&
        connect(tried, (const struct sockaddr *)&address, sizeof address) != 0 &&
        errno == ECONNREFUSED) {
        unlinkat(place, name, 0);
    }
    if (tried >= 0) {
        close(tried);
    }
}

void place_remove_sockets(int place)
{
    each_name(place, SOCKET_PREFIX, remove_socket, NULL);
}

/* ---- identities ---- */

bool place_has_identity(int place, const folder_cache *cache, const kiln_key *key)
{
    char name[NAME_SIZE], expected[KILN_DIGEST_TEXT_SIZE], found[KILN_DIGEST_TEXT_SIZE] = "";
    snprintf(name, sizeof name, "%s.identity", cache->name);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, expected);
    const int file = openat(place, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    const bool is_read = file >= 0 && read(file, found, sizeof found) == sizeof found - 1;
    if (file >= 0) {
        close(file);
    }
    return is_read && memcmp(found, expected, sizeof found - 1) == 0;
}

void place_set_identity(int place, const folder_cache *cache, const kiln_key *key)
{
    char name[NAME_SIZE], text[KILN_DIGEST_TEXT_SIZE];
    snprintf(name, sizeof name, "%s.identity", cache->name);
    unlinkat(place, name, 0);
    if (key == NULL) {
        return;
    }
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    const int file = openat(place, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) {
        const ssize_t written = write(file, text, sizeof text - 1);
        (void)written; /* a text that is cut is no identity */
        close(file);
    }
}

/* ---- known files ---- */

void place_read_known(int place, const folder_cache *cache, file_list *ret_list)
{
    char name[NAME_SIZE];
    struct stat status;
    snprintf(name, sizeof name, "%s.known", cache->name);
    const int opened = openat(place, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *file = opened < 0 ? NULL : fdopen(opened, "r");
    *ret_list = (file_list){0};
    if (file == NULL) {
        return;
    }
    if (fstat(opened, &status) == 0 && status.st_size > 0 && status.st_size <= (off_t)KNOWN_MAX) {
        owned char *text = must(malloc((size_t)status.st_size));
        const size_t size = fread(text, 1, (size_t)status.st_size, file);
        file_list_from_text(text, size, ret_list);
    }
    fclose(file);
}

void place_write_known(int place, const folder_cache *cache, const file_list *list)
{
    char name[NAME_SIZE], temporary[NAME_SIZE];
    snprintf(name, sizeof name, "%s.known", cache->name);
    snprintf(temporary, sizeof temporary, "%s.known.new", cache->name);
    const int opened =
        openat(place, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *file = opened < 0 ? NULL : fdopen(opened, "w");
    if (file == NULL) {
        return;
    }
    owned char *text = file_list_to_text(list, true);
    fputs(text, file);
    if (fclose(file) == 0) {
        renameat(place, temporary, place, name);
    }
}
