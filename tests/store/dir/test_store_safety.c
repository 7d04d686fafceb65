/* SPDX-License-Identifier: Apache-2.0
 *
 * Hostile directories: files and links that other users may have put into a directory or a folder
 * above it, and folders that are replaced while the store is opened. Creating files of other users
 * needs root; without it these tests report that they are skipped. test_store.c has the simple
 * cases.
 */
#include "support/cache_scene.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <time.h>

#include "entry/entry.h"
#include "os/os.h"
#include "store/store.h"

#define OTHER_USER 12345

static kiln_store *store;

static int set_up(void **state)
{
    cache_set_up(state);
    return kiln_store_open(cache, NULL, &store, NULL) == KILN_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    kilni_os_replace(NULL);
    kiln_store_close(&store);
    return cache_tear_down(state);
}

static bool exists(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0;
}

static void write_whole(const char *path, const void *bytes, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), (ssize_t)size);
    close(file);
}

static void need_root(const char *what)
{
    if (geteuid() != 0) {
        print_message("skipped, since only root can make %s\n", what);
        skip();
    }
}

static void expect_denied(const char *location, const char *text)
{
    kiln_store *denied = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_store_open(location, NULL, &denied, &error), KILN_E_DENIED);
    assert_null(denied);
    if (!strstr(error.text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
    }
}

/* ---- the user of the process ---- */

static uid_t somebody_else(void)
{
    return getuid() + 1;
}

/* As after sudo, or in a program with raised privileges: the directory belongs to a different user.
 */
static void test_another_effective_user(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.geteuid = somebody_else;
    kilni_os_replace(&table);
    expect_denied(cache, "belongs to user");
}

/* ---- the folders above the directory ---- */

static void test_directories_in_a_sticky_one_belong_to_their_owners(void **state)
{
    (void)state;
    need_root("a directory of a different user in a sticky one");
    const char *common = scratch_path(scratch, "common");
    assert_int_equal(mkdir(common, 0700), 0);
    assert_int_equal(chmod(common, 01777), 0);
    const char *theirs = scratch_path(scratch, "common/cache");
    assert_int_equal(mkdir(theirs, 0700), 0);
    assert_int_equal(chown(theirs, OTHER_USER, OTHER_USER), 0);
    const char *below = scratch_path(scratch, "common/cache/below");
    expect_denied(theirs, "belongs to user 12345");
    expect_denied(below, "belongs to user 12345");
    assert_false(exists(below));

    assert_int_equal(rmdir(theirs), 0);
    assert_int_equal(symlink(cache, theirs), 0);
    assert_int_equal(lchown(theirs, OTHER_USER, OTHER_USER), 0);
    expect_denied(below, "belongs to user 12345");
    assert_false(exists(scratch_path(cache, "below")));
}

static void test_a_setuid_bit_grants_nothing(void **state)
{
    (void)state;
    assert_int_equal(chmod(cache, 06755), 0);
    kiln_store *opened = NULL;
    assert_int_equal(kiln_store_open(cache, NULL, &opened, NULL), KILN_OK);
    assert_int_equal(scratch_put(opened, 1, 10), KILN_OK);
    kiln_store_close(&opened);
    char path[SCRATCH_PATH_SIZE];
    struct stat stat;
    scratch_entry_path(cache, 1, path);
    assert_int_equal(lstat(path, &stat), 0);
    assert_int_equal(stat.st_mode & 07777, 0600);
    assert_int_equal(chmod(path, 06700), 0);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

/* The hook below replaces this component, once, after it was opened. */
static struct {
    const char *name, *from, *aside, *target;
} exchange;

/* Opens a component of the path, and then replaces it with a link. */
static int exchanging_openat(int directory, const char *path, int flags, mode_t mode)
{
    const int file = kilni_os_system()->openat(directory, path, flags, mode);
    if (file >= 0 && exchange.name && strcmp(path, exchange.name) == 0) {
        exchange.name = NULL;
        if (rename(exchange.from, exchange.aside) != 0 ||
            symlink(exchange.target, exchange.from) != 0) {
            abort();
        }
    }
    return file;
}

/* The store uses the directory that it checked, whatever its name refers to by then: the bytes go
 * to the directory that was moved away, and not to the target of the link. */
static void exchange_and_put(const char *name, const char *below)
{
    const char *trap = scratch_path(scratch, "trap");
    assert_int_equal(mkdir(trap, 0700), 0);
    char from[SCRATCH_DIRECTORY_SIZE + 16];
    snprintf(from, sizeof from, "%s/%s", scratch, name);
    const char *aside = scratch_path(scratch, "aside");
    exchange.name = name;
    exchange.from = from;
    exchange.aside = aside;
    exchange.target = trap;
    kilni_os_table table = *kilni_os_system();
    table.openat = exchanging_openat;
    kilni_os_replace(&table);
    kiln_store *opened = NULL;
    char location[SCRATCH_DIRECTORY_SIZE + 32];
    snprintf(location, sizeof location, "%s%s", from, below);
    assert_int_equal(kiln_store_open(location, NULL, &opened, NULL), KILN_OK);
    kilni_os_replace(NULL);
    assert_null(exchange.name);
    assert_int_equal(scratch_put(opened, 1, 10), KILN_OK);
    assert_int_equal(scratch_get(opened, 1), KILN_OK);
    kiln_store_close(&opened);
    assert_int_equal(rmdir(trap), 0); /* the folder is still empty */
}

static void test_a_component_that_is_replaced_by_a_link(void **state)
{
    (void)state;
    assert_int_equal(mkdir(scratch_path(scratch, "above"), 0700), 0);
    assert_int_equal(mkdir(scratch_path(scratch, "above/leaf"), 0700), 0);
    exchange_and_put("above", "/leaf");
    assert_true(exists(scratch_path(scratch, "aside/leaf/v1")));
}

static void test_a_directory_that_is_replaced_by_a_link(void **state)
{
    (void)state;
    exchange_and_put("cache", "");
    assert_true(exists(scratch_path(scratch, "aside/v1")));
}

/* ---- the folders below ---- */

static int count_item(void *user, kiln_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

static kiln_status remove_entry(uint64_t number)
{
    kiln_key *key = scratch_key(number);
    const kiln_status status = kiln_store_remove(store, key);
    kiln_key_release(&key);
    return status;
}

static kiln_status look_for_entry(uint64_t number)
{
    kiln_key *key = scratch_key(number);
    const kiln_status status = kiln_store_contains(store, key);
    kiln_key_release(&key);
    return status;
}

/* Checks that every operation refuses entry 1, which is in an untrusted folder. */
static void expect_untrusted_everywhere(void)
{
    unsigned count = 0;
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    assert_int_equal(look_for_entry(1), KILN_MISS);
    assert_int_equal(scratch_put(store, 1, 20), KILN_E_DENIED);
    assert_int_equal(remove_entry(1), KILN_E_IO);
    assert_int_equal(kiln_store_each(store, count_item, &count), KILN_E_DENIED);
    assert_int_equal(count, 0);
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_E_DENIED);
    assert_int_equal(trim_to(store, 0, NULL), KILN_E_DENIED);
}

static int open_below_refused(int directory, const char *path, int flags)
{
    (void)directory, (void)path, (void)flags;
    errno = EPERM;
    return -1;
}

/* Tests with the kernel's openat2, and without it, as in a sandbox that refuses it. */
static void expect_untrusted_either_way(void)
{
    kilni_os_table table = *kilni_os_system();
    table.open_below = open_below_refused;
    expect_untrusted_everywhere();
    kilni_os_replace(&table);
    expect_untrusted_everywhere();
    kilni_os_replace(NULL);
}

/* @path is moved out of the store and replaced by a link to it. */
static void expect_link_refused(const char *path, const char *entry)
{
    char moved[SCRATCH_PATH_SIZE], victim[SCRATCH_PATH_SIZE * 2];
    snprintf(moved, sizeof moved, "%s/elsewhere", scratch);
    snprintf(victim, sizeof victim, "%s/%s", moved, entry);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink(moved, path), 0);
    struct stat before, after;
    assert_int_equal(lstat(victim, &before), 0);
    expect_untrusted_either_way();
    assert_int_equal(lstat(victim, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(moved, path), 0);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

static void test_a_shard_that_is_a_link(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE], shard[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    scratch_entry_path(cache, 1, path);
    scratch_entry_folder(cache, 1, shard);
    expect_link_refused(shard, strrchr(path, '/') + 1);
}

static void test_the_folder_of_shards_is_a_link(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    scratch_entry_path(cache, 1, path);
    expect_link_refused(scratch_path(cache, "v1"), path + strlen(cache) + strlen("/v1/"));
}

static void test_a_shard_writable_by_others(void **state)
{
    (void)state;
    char shard[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    scratch_entry_folder(cache, 1, shard);
    static const mode_t modes[] = {0777, 0770, 01777, 0702};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(shard, modes[i]), 0);
        expect_untrusted_either_way();
    }
    assert_int_equal(chmod(shard, 0755), 0);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 20), KILN_OK);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_int_equal(look_for_entry(1), KILN_MISS);
}

static void test_a_shard_of_a_different_user(void **state)
{
    (void)state;
    need_root("a folder of another user's");
    char shard[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    scratch_entry_folder(cache, 1, shard);
    assert_int_equal(chown(shard, OTHER_USER, OTHER_USER), 0);
    expect_untrusted_either_way();
    assert_int_equal(chown(shard, 0, 0), 0);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

/* ---- other files in an entry's place ---- */

static void test_a_socket_in_an_entrys_place(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(unlink(path), 0);
    if (strlen(path) >= sizeof address.sun_path) {
        print_message("skipped: %s is too long a name for a socket\n", path);
        skip();
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    close(listener);
}

static void test_a_device_in_an_entrys_place(void **state)
{
    (void)state;
    need_root("a device file");
    char path[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(unlink(path), 0);
    if (mknod(path, S_IFCHR | 0600, makedev(1, 5)) != 0) { /* /dev/zero: endless */
        print_message("skipped, since devices can't be made here: %s\n", strerror(errno));
        skip();
    }
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

/* A file has the same owner and mode under each of its names. */
static void test_hard_links(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    const char *second = scratch_path(scratch, "second");
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(link(path, second), 0);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 20), KILN_OK);
    struct stat stat;
    assert_int_equal(lstat(second, &stat), 0);
    assert_int_equal(stat.st_nlink, 1); /* a put replaces the name, never the bytes */

    need_root("a file of another user's");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(chown(second, OTHER_USER, OTHER_USER), 0);
    assert_int_equal(link(second, path), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_true(exists(second));
}

/* A huge file is refused before its content is read or memory is allocated for it. */
static void test_a_huge_file(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    scratch_entry_path(cache, 1, path);
    if (truncate(path, (off_t)1 << 42) != 0) {
        print_message("skipped: no sparse file of 4 TiB here: %s\n", strerror(errno));
        skip();
    }
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

static uint64_t read_bytes;

static ssize_t counting_pread(int file, void *buffer, size_t size, off_t offset)
{
    read_bytes += size;
    return kilni_os_system()->pread(file, buffer, size, offset);
}

static ssize_t counting_read(int file, void *buffer, size_t size)
{
    read_bytes += size;
    return kilni_os_system()->read(file, buffer, size);
}

static uint64_t bytes_read_by_a_get(kiln_store *asked, kiln_status expected)
{
    kilni_os_table table = *kilni_os_system();
    table.pread = counting_pread;
    table.read = counting_read;
    read_bytes = 0;
    kilni_os_replace(&table);
    const kiln_status status = scratch_get(asked, 1);
    kilni_os_replace(NULL);
    assert_int_equal(status, expected);
    return read_bytes;
}

/* A long file whose header is wrong or missing is refused after its first bytes were read. */
static void test_a_long_file_without_content(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    kiln_store *readonly = NULL;
    const kiln_store_params params = {.struct_size = sizeof params, .flags = KILN_STORE_READONLY};
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(kiln_store_open(cache, &params, &readonly, NULL), KILN_OK);
    /* At first, the header contradicts the file's size. Then the header is missing. */
    assert_int_equal(truncate(path, (off_t)700 << 20), 0);
    assert_true(bytes_read_by_a_get(readonly, KILN_E_CORRUPT) < 65536);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, (off_t)700 << 20), 0);
    assert_true(bytes_read_by_a_get(readonly, KILN_E_CORRUPT) < 65536);
    assert_int_equal(truncate(path, (off_t)6 << 30), 0);
    assert_int_equal(bytes_read_by_a_get(readonly, KILN_MISS), 0);
    kiln_store_close(&readonly);
}

static void test_entries_have_a_largest_size(void **state)
{
    (void)state;
    char url[SCRATCH_PATH_SIZE];
    kiln_store *small = NULL;
    snprintf(url, sizeof url, "file://%s?max-entry=2M", cache);
    assert_int_equal(kiln_store_open(url, NULL, &small, NULL), KILN_OK);
    assert_int_equal(scratch_put(store, 1, (size_t)3 << 20), KILN_OK);
    assert_int_equal(bytes_read_by_a_get(small, KILN_MISS), 0);
    assert_int_equal(bytes_read_by_a_get(store, KILN_OK) > (size_t)3 << 20, 1);
    assert_int_equal(scratch_put(small, 1, (size_t)3 << 20), KILN_E_TOO_LARGE);
    assert_int_equal(scratch_put(small, 1, (size_t)1 << 20), KILN_OK);
    assert_int_equal(scratch_get(small, 1), KILN_OK);
    kiln_store_close(&small);

    const kiln_store_params params = {.struct_size = sizeof params, .max_entry_bytes = 1 << 19};
    assert_int_equal(kiln_store_open(cache, &params, &small, NULL), KILN_OK);
    assert_int_equal(scratch_get(small, 1), KILN_MISS);
    kiln_store_close(&small);
    snprintf(url, sizeof url, "file://%s?max-entry=0", cache);
    assert_int_equal(kiln_store_open(url, NULL, &small, NULL), KILN_E_PARSE);
}

/* ---- while it is read ---- */

static char read_path[SCRATCH_PATH_SIZE];
static off_t read_size;

/* Truncates the file, or extends it, before its bytes are read. */
static ssize_t resizing_pread(int file, void *buffer, size_t size, off_t offset)
{
    if (truncate(read_path, read_size) != 0) {
        abort();
    }
    return kilni_os_system()->pread(file, buffer, size, offset);
}

static void test_a_size_that_changes(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.pread = resizing_pread;
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    scratch_entry_path(cache, 1, read_path);
    struct stat stat;
    assert_int_equal(lstat(read_path, &stat), 0);

    read_size = stat.st_size + 100000;
    kilni_os_replace(&table);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(truncate(read_path, stat.st_size), 0);
    read_size = 100;
    assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
}

static void test_an_entry_that_is_overwritten_later(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    kiln_entry *entry = NULL;
    kiln_key *key = scratch_key(1);
    assert_int_equal(scratch_put(store, 1, 5000), KILN_OK);
    assert_int_equal(kiln_store_get(store, key, &entry), KILN_OK);
    scratch_entry_path(cache, 1, path);
    write_whole(path, "something else", 14);
    assert_true(scratch_entry_is(entry, 1));
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

static kiln_entry *entry_of_kind(const char *first_part, uint32_t kind)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, first_part, "x"), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    const kiln_entry_params params = {.struct_size = sizeof params, .key = key, .kind = kind};
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_key_release(&key);
    return entry;
}

static int read_item(void *user, kiln_item *item)
{
    kiln_entry *entry = NULL;
    *(kiln_status *)user = kiln_item_read(item, &entry);
    kiln_entry_release(&entry);
    return 0;
}

/* A put refuses an entry whose kind contradicts its key. If such an entry is in the directory
 * anyway, gets and listings report it as damaged. */
static void test_kinds_fit_their_keys(void **state)
{
    (void)state;
    static const struct {
        const char *first_part;
        uint32_t right, wrong;
    } cases[] = {{"device", KILN_ENTRY_PROGRAM, KILN_ENTRY_REQUEST},
                 {KILN_REQUEST_PART, KILN_ENTRY_REQUEST, KILN_ENTRY_PROGRAM}};
    for (size_t i = 0; i < 2; i++) {
        kiln_entry *right = entry_of_kind(cases[i].first_part, cases[i].right);
        kiln_entry *wrong = entry_of_kind(cases[i].first_part, cases[i].wrong);
        kiln_entry *got = NULL;
        assert_int_equal(kiln_store_put(store, wrong), KILN_E_INVALID);
        assert_int_equal(kiln_store_put(store, right), KILN_OK);
        assert_int_equal(kiln_store_get(store, kiln_entry_key(right), &got), KILN_OK);
        kiln_entry_release(&got);
        assert_int_equal(store->ops->put(store, wrong), KILN_OK);
        assert_int_equal(kiln_store_get(store, kiln_entry_key(right), &got), KILN_E_CORRUPT);
        kiln_status read = KILN_OK;
        assert_int_equal(kiln_store_each(store, read_item, &read), KILN_OK);
        assert_int_equal(read, KILN_E_CORRUPT);
        assert_int_equal(kiln_store_remove(store, kiln_entry_key(right)), KILN_OK);
        assert_int_equal(kiln_store_put(store, right), KILN_OK);
        assert_int_equal(kiln_store_get(store, kiln_entry_key(right), &got), KILN_OK);
        kiln_entry_release(&got);
        kiln_entry_release(&right);
        kiln_entry_release(&wrong);
    }
}

/* ---- files beside the entries ---- */

/* Links in the place of Kiln's own files are not followed, and delay no call. */
static void test_links_in_the_place_of_own_files(void **state)
{
    (void)state;
    static const char *const names[] = {"stats", "lease"};
    const char *victim = scratch_path(scratch, "victim");
    write_whole(victim, "precious", 8);
    kiln_store_close(&store);
    scratch_remove(cache);
    assert_int_equal(mkdir(cache, 0700), 0);
    assert_int_equal(symlink(victim, scratch_path(cache, "CACHEDIR.TAG")), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(symlink(victim, scratch_path(cache, names[i])), 0);
    }
    assert_int_equal(kiln_store_open(cache, NULL, &store, NULL), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    kiln_key *key = scratch_key(2);
    kiln_lease *lease = NULL;
    assert_int_not_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_not_equal(trim_to(store, 0, NULL), KILN_OK);
    struct stat stat;
    assert_int_equal(lstat(victim, &stat), 0);
    assert_int_equal(stat.st_size, 8);

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(unlink(scratch_path(cache, names[i])), 0);
        assert_int_equal(mkfifo(scratch_path(cache, names[i]), 0600), 0);
    }
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    assert_int_not_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_key_release(&key);
}

static void test_own_files_that_belong_to_a_different_user(void **state)
{
    (void)state;
    need_root("files of a different user");
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    assert_int_equal(chown(scratch_path(cache, "lease"), OTHER_USER, OTHER_USER), 0);
    assert_int_equal(chown(scratch_path(cache, "stats"), OTHER_USER, OTHER_USER), 0);
    assert_int_not_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(scratch_put(store, 2, 10), KILN_OK);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.totals.puts, 0);
    kiln_key_release(&key);
}

static void test_the_entries_folder_belongs_to_a_different_user(void **state)
{
    (void)state;
    need_root("a folder of another user's");
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    assert_int_equal(chown(scratch_path(cache, "v1"), OTHER_USER, OTHER_USER), 0);
    expect_denied(cache, "v1 must be a directory of user 0");
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_another_effective_user),
        TEST(test_directories_in_a_sticky_one_belong_to_their_owners),
        TEST(test_a_setuid_bit_grants_nothing),
        TEST(test_a_component_that_is_replaced_by_a_link),
        TEST(test_a_directory_that_is_replaced_by_a_link),
        TEST(test_a_shard_that_is_a_link),
        TEST(test_the_folder_of_shards_is_a_link),
        TEST(test_a_shard_writable_by_others),
        TEST(test_a_shard_of_a_different_user),
        TEST(test_a_socket_in_an_entrys_place),
        TEST(test_a_device_in_an_entrys_place),
        TEST(test_hard_links),
        TEST(test_a_huge_file),
        TEST(test_a_long_file_without_content),
        TEST(test_entries_have_a_largest_size),
        TEST(test_kinds_fit_their_keys),
        TEST(test_a_size_that_changes),
        TEST(test_an_entry_that_is_overwritten_later),
        TEST(test_links_in_the_place_of_own_files),
        TEST(test_own_files_that_belong_to_a_different_user),
        TEST(test_the_entries_folder_belongs_to_a_different_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
