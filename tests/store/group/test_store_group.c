/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in a group's directory: what every store on a server must do, which directories are
 * refused, how room is made, and system calls that fail. What members of the group can do to each
 * other is in test_group_attacks.c.
 */
#include "support/server_conformance.h"

#include <errno.h>

#include <kiln/signature.h>

#include "os/os.h"
#include "store/call_limit.h"
#include "store/group/group.h"
#include "support/failing_malloc.h"

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char directory[SCRATCH_DIRECTORY_SIZE + 8], key_path[SCRATCH_DIRECTORY_SIZE + 8];

/* Entries of this store are always signed, so "trust=any" stands for a key of the test. */
static const char *location_of(const char *options)
{
    static char location[3 * SCRATCH_PATH_SIZE];
    const char *others = strstr(options, "trust=any");
    const int length = others
                           ? snprintf(location, sizeof location, "group:%s?secret-key-file=%s%s",
                                      directory, key_path, others + strlen("trust=any"))
                           : snprintf(location, sizeof location, "group:%s?%s", directory, options);
    assert_in_range(length, 1, sizeof location - 1);
    return location;
}

static void describe(kilni_remote_server *server)
{
    server->max_bytes = KILN_UNLIMITED;
    snprintf(server->path, sizeof server->path, "%.511s", directory);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(directory, sizeof directory, "%s/group", scratch);
    snprintf(key_path, sizeof key_path, "%s/key", scratch);
    conformance = (conformance_scene){.location = location_of,
                                      .built_in = &kilni_group_connector,
                                      .describe = describe,
                                      .before = "kiln-v1-",
                                      .behind = "",
                                      .before_damaged = "kiln-v1-damaged-",
                                      .behind_damaged = "",
                                      .has_lists = true,
                                      .folder = scratch};
    kiln_public_key made;
    if (mkdir(directory, 0700) != 0 || chmod(directory, 02770) != 0 ||
        kiln_secret_key_make(key_path, "tests", &made, NULL) != KILN_OK) {
        return -1;
    }
    open_store(location_of("trust=any"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kilni_os_replace(NULL);
    kiln_store_close(&store);
    scratch_remove(scratch);
    return 0;
}

static const char *path_of(uint64_t number)
{
    static char path[2 * SCRATCH_DIRECTORY_SIZE];
    snprintf(path, sizeof path, "%s/%s", directory, name_of(number));
    return path;
}

/* ---- which directories are used ---- */

static void expect_refused(const char *location, kiln_status status, const char *why)
{
    kiln_error error = {.struct_size = sizeof error};
    kiln_store *opened = NULL;
    const kiln_status got = kiln_store_open(location, NULL, &opened, &error);
    if (got != status || !strstr(error.text, why)) {
        fail_msg("%s: %s: %s", location, kiln_status_name(got), error.text);
    }
}

static void test_modes(void **state)
{
    (void)state;
    static const mode_t refused[] = {0700,  0755,  0770,  02700, 02750,
                                     02755, 02775, 02777, 03777, 06770};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(chmod(directory, refused[i]), 0);
        expect_refused(location_of("trust=any"), KILN_E_DENIED, "must have mode 2770 or 3770");
        assert_int_equal(scratch_get(store, 1), KILN_E_DENIED); /* an open store notices it, too */
        assert_int_equal(scratch_put(store, 1, 1000), KILN_E_DENIED);
    }
    assert_int_equal(chmod(directory, 03770), 0);
    open_store(location_of("trust=any"));
    assert_int_equal(put(1, 1000), KILN_OK);
    assert_int_equal(get(1), KILN_OK);
}

static void test_places(void **state)
{
    (void)state;
    char link[SCRATCH_DIRECTORY_SIZE + 8], location[3 * SCRATCH_PATH_SIZE];
    assert_int_equal(put(1, 1000), KILN_OK);
    snprintf(location, sizeof location, "group://%s//?secret-key-file=%s", directory, key_path);
    open_store(location);
    assert_int_equal(get(1), KILN_OK);
    /* Links above it can belong to the user. */
    snprintf(link, sizeof link, "%s/link", scratch);
    assert_int_equal(symlink(".", link), 0);
    snprintf(location, sizeof location, "group:%s/group?secret-key-file=%s", link, key_path);
    open_store(location);
    assert_int_equal(get(1), KILN_OK);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("group", link), 0);
    snprintf(location, sizeof location, "group:%s?secret-key-file=%s", link, key_path);
    expect_refused(location, KILN_E_DENIED, "is a symbolic link");
    /* Others can write to the directory above. */
    static const mode_t refused[] = {0777, 0770};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(chmod(scratch, refused[i]), 0);
        expect_refused(location_of("trust=any"), KILN_E_DENIED, "is writable by others");
    }
    assert_int_equal(chmod(scratch, 01777), 0);
    open_store(location_of("trust=any"));
    assert_int_equal(chmod(scratch, 0700), 0);
    snprintf(location, sizeof location, "group:%s/none?secret-key-file=%s", scratch, key_path);
    expect_refused(location, KILN_E_IO, "install -d -g GROUP -m 2770");
    snprintf(location, sizeof location, "group:%s?secret-key-file=%s", key_path, key_path);
    expect_refused(location, KILN_E_DENIED, "is not a directory");
    expect_refused("group:there?secret-key-file=/key", KILN_E_PARSE, "absolute path");
    expect_refused("group://there/x?secret-key-file=/key", KILN_E_PARSE, "absolute path");
}

static int without_openat2(int folder, const char *path, int flags)
{
    (void)folder, (void)path, (void)flags;
    errno = ENOSYS;
    return -1;
}

static void test_without_openat2(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.open_within = without_openat2;
    kilni_os_replace(&table);
    expect_refused(location_of("trust=any"), KILN_E_IO, "needs openat2");
}

static void test_only_signed_entries(void **state)
{
    (void)state;
    char location[SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "group:%s", directory);
    expect_refused(location, KILN_E_DENIED, "needs a trusted key");
    snprintf(location, sizeof location, "group:%s?trust=any", directory);
    expect_refused(location, KILN_E_UNSUPPORTED, "no option \"trust\"");
}

/* Others can read the files whatever the umask is, and nobody else can write to them. */
static void test_files(void **state)
{
    (void)state;
    struct stat stat;
    const mode_t before = umask(0777);
    const kiln_status status = put(1, 1000);
    umask(before);
    assert_int_equal(status, KILN_OK);
    assert_int_equal(lstat(path_of(1), &stat), 0);
    assert_int_equal(stat.st_mode, S_IFREG | 0640);
    assert_int_equal(stat.st_nlink, 1);
}

static ssize_t no_chance(void *buffer, size_t size, unsigned flags)
{
    (void)flags;
    memset(buffer, 0, size);
    return (ssize_t)size;
}

/* Whatever has the name of a temporary stays, even if a member could guess the name. */
static void test_a_temporary_is_new(void **state)
{
    (void)state;
    const char *other = file_with("other", "x", 1, 0600);
    const char *taken = scratch_path(directory, "kiln-v1-new-0000000000000000");
    kilni_os_table table = *kilni_os_system();
    table.getrandom = no_chance;
    kilni_os_replace(&table);
    assert_int_equal(symlink(other, taken), 0);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_IO);
    assert_int_equal(unlink(taken), 0);
    assert_int_equal(link(other, taken), 0);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_E_IO);
    struct stat stat;
    assert_int_equal(lstat(other, &stat), 0);
    assert_int_equal(stat.st_size, 1);
    assert_int_equal(stat.st_mode, S_IFREG | 0600);
    assert_int_equal(unlink(taken), 0);
    assert_int_equal(put(1, 1000), KILN_OK);
}

/* The lease of a key is that of a private directory. */
static void test_there_are_no_leases(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_E_UNSUPPORTED);
    kiln_key_release(&key);
}

/* Moves a value to a different name, but only if it is a value of one byte, 'x'. */
static kiln_status move_if_x(const kilni_connector *connector, kilni_remote *remote, void *user)
{
    unsigned char value = 'x';
    const kilni_remote_bytes bytes = {.data = &value, .size = 1};
    return connector->move(remote, user, "kiln-v1-moved", bytes, 0, in_a_while());
}

static void test_a_move_compares(void **state)
{
    (void)state;
    static char from[] = "kiln-v1-from";
    static const char *const others[] = {"", "y", "xx"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        plant_value(from, others[i], strlen(others[i]));
        assert_int_equal(use_server(move_if_x, from), KILN_MISS);
        assert_int_equal(access(scratch_path(directory, from), F_OK), 0);
    }
    plant_value(from, "x", 1);
    assert_int_equal(use_server(move_if_x, from), KILN_OK);
    assert_int_equal(use_server(move_if_x, from), KILN_MISS);
    assert_int_equal(access(scratch_path(directory, "kiln-v1-moved"), F_OK), 0);
}

/* ---- making room ---- */

static void set_age(const char *path, time_t age_s)
{
    const struct timespec then = {.tv_sec = time(NULL) - age_s};
    const struct timespec times[2] = {then, then};
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* Of 40 entries, each in 8 KiB, at most 14 fit below seven eighths of 128 KiB. */
static void test_room_is_made(void **state)
{
    (void)state;
    char leftover[SCRATCH_PATH_SIZE], young[SCRATCH_PATH_SIZE], other[SCRATCH_PATH_SIZE];
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(put(i, 6000), KILN_OK);
        set_age(path_of(i), (time_t)(40 - i) * 24 * 3600);
    }
    snprintf(leftover, sizeof leftover, "%s", file_with("group/kiln-v1-new-1", "x", 1, 0640));
    snprintf(young, sizeof young, "%s", file_with("group/kiln-v1-new-2", "x", 1, 0640));
    snprintf(other, sizeof other, "%s", file_with("group/other", "x", 1, 0640));
    set_age(leftover, 2 * 3600);
    set_age(other, 1000 * 24 * 3600);
    assert_int_equal(mkdir(scratch_path(directory, "kiln-v1-folder"), 0700), 0);
    open_store(location_of("trust=any&max-size=128K"));
    assert_int_equal(put(40, 6000), KILN_OK);
    unsigned kept = 0;
    for (uint64_t i = 0; i <= 40; i++) {
        const bool is_there = contains(i) == KILN_OK;
        assert_true(is_there || kept == 0); /* the oldest go first */
        kept += is_there;
    }
    assert_in_range(kept, 11, 14);
    assert_int_not_equal(access(leftover, F_OK), 0);
    assert_int_equal(access(young, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_equal(access(scratch_path(directory, "kiln-v1-folder"), F_OK), 0);
    assert_int_equal(get(40), KILN_OK);
}

/* When the end of the process must not be delayed any more, files are not counted. */
static void test_no_room_is_made_at_the_end(void **state)
{
    (void)state;
    const _Atomic uint64_t end_ns = 1;
    open_store(location_of("trust=any&max-size=64K"));
    kilni_call_limit_set(&end_ns);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(put(i, 6000), KILN_OK);
    }
    kilni_call_limit_set(NULL);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(contains(i), KILN_OK);
    }
    assert_int_equal(put(0, 6000), KILN_OK);
    unsigned count = 0;
    assert_int_equal(kiln_store_each(store, count_item, &count), KILN_OK);
    assert_in_range(count, 1, 8);
}

static void test_limits(void **state)
{
    (void)state;
    /* The limit of the user's own directory does not count here. */
    const kiln_store_params params = {.struct_size = sizeof params, .max_bytes = 1};
    kiln_store_close(&store);
    assert_int_equal(kiln_store_open(location_of("trust=any"), &params, &store, NULL), KILN_OK);
    assert_int_equal(put(1, 1000), KILN_OK);
    open_store(location_of("trust=any&max-size=0"));
    assert_int_equal(put(2, 1000), KILN_E_TOO_LARGE);
    assert_int_equal(get(1), KILN_OK);
}

/* ---- failing calls ---- */

#define CALLS(X)                                                                                   \
    X(openat)                                                                                      \
    X(open_within)                                                                                 \
    X(fstat)                                                                                       \
    X(read)                                                                                        \
    X(write)                                                                                       \
    X(fchmod)                                                                                      \
    X(close)                                                                                       \
    X(renameat)                                                                                    \
    X(unlinkat)                                                                                    \
    X(getrandom)                                                                                   \
    X(fdopendir)                                                                                   \
    X(readdir)

enum call {
#define ENUM(name) CALL_##name,
    CALLS(ENUM)
#undef ENUM
        CALL_COUNT
};

static enum call failing_call;
static unsigned fails_at, seen;
static int failing_error;

static bool fails(enum call call)
{
    if (call != failing_call || ++seen != fails_at) {
        return false;
    }
    errno = failing_error;
    return true;
}

static int faulty_openat(int folder, const char *path, int flags, mode_t mode)
{
    return fails(CALL_openat) ? -1 : kilni_os_system()->openat(folder, path, flags, mode);
}

static int faulty_open_within(int folder, const char *path, int flags)
{
    return fails(CALL_open_within) ? -1 : kilni_os_system()->open_within(folder, path, flags);
}

static int faulty_fstat(int file, struct stat *ret_stat)
{
    return fails(CALL_fstat) ? -1 : kilni_os_system()->fstat(file, ret_stat);
}

static ssize_t faulty_read(int file, void *buffer, size_t size)
{
    return fails(CALL_read) ? -1 : kilni_os_system()->read(file, buffer, size);
}

static ssize_t faulty_write(int file, const void *buffer, size_t size)
{
    return fails(CALL_write) ? -1 : kilni_os_system()->write(file, buffer, size);
}

static int faulty_fchmod(int file, mode_t mode)
{
    return fails(CALL_fchmod) ? -1 : kilni_os_system()->fchmod(file, mode);
}

/* The system closes a descriptor even if it reports a failure. */
static int faulty_close(int file)
{
    const int result = kilni_os_system()->close(file);
    return fails(CALL_close) ? -1 : result;
}

static int faulty_renameat(int from, const char *old_path, int to, const char *new_path)
{
    return fails(CALL_renameat) ? -1 : kilni_os_system()->renameat(from, old_path, to, new_path);
}

static int faulty_unlinkat(int folder, const char *path, int flags)
{
    return fails(CALL_unlinkat) ? -1 : kilni_os_system()->unlinkat(folder, path, flags);
}

static ssize_t faulty_getrandom(void *buffer, size_t size, unsigned flags)
{
    return fails(CALL_getrandom) ? -1 : kilni_os_system()->getrandom(buffer, size, flags);
}

static DIR *faulty_fdopendir(int file)
{
    return fails(CALL_fdopendir) ? NULL : kilni_os_system()->fdopendir(file);
}

static struct dirent *faulty_readdir(DIR *names)
{
    return fails(CALL_readdir) ? NULL : kilni_os_system()->readdir(names);
}

static int read_item(void *user, kiln_item *item)
{
    (void)user;
    kiln_entry *entry = NULL;
    kiln_item_read(item, &entry);
    kiln_entry_release(&entry);
    return 0;
}

/* Uses every operation. Each returns only statuses that its header lists. */
static void use_all(void)
{
    kiln_verify_report report = {.struct_size = sizeof report};
    unsigned count = 0;
    kiln_status statuses[8] = {scratch_put(store, 1, 5000)};
    statuses[1] = scratch_get(store, 1);
    const int damaged = open(path_of(2), O_WRONLY | O_CREAT | O_TRUNC, 0640);
    assert_int_equal(write(damaged, "damaged", 7), 7);
    close(damaged);
    statuses[2] = kiln_store_each(store, read_item, NULL);
    statuses[3] = kiln_store_verify(store, NULL, &count, &report);
    kiln_key *key = scratch_key(1);
    statuses[4] = kiln_store_contains(store, key);
    statuses[5] = kiln_store_remove(store, key);
    kiln_key_release(&key);
    for (size_t i = 0; i < 6; i++) {
        switch (statuses[i]) {
        case KILN_OK:
        case KILN_MISS:
        case KILN_EXISTS:
        case KILN_E_IO:
        case KILN_E_DENIED:
        case KILN_E_FULL:
        case KILN_E_CORRUPT:
        case KILN_E_NO_MEMORY:
            break;
        default:
            fail_msg("operation %zu: %s", i, kiln_status_name(statuses[i]));
        }
    }
}

static void repair(void)
{
    kilni_os_replace(NULL);
    assert_int_equal(put(1, 5000), KILN_OK);
    assert_int_equal(get(1), KILN_OK);
}

static void test_failing_calls(void **state)
{
    (void)state;
    static const int errors[] = {EIO, EACCES, ENOMEM, ENOSPC, EMFILE};
    kilni_os_table table = *kilni_os_system();
#define REPLACE(name) table.name = faulty_##name;
    CALLS(REPLACE)
#undef REPLACE
    open_store(location_of("trust=any&max-size=16K"));
    use_all();
    const unsigned descriptors = scratch_count_descriptors();
    for (failing_call = 0; failing_call < CALL_COUNT; failing_call++) {
        fails_at = 0;
        do {
            fails_at++;
            seen = 0;
            failing_error = errors[fails_at % (sizeof errors / sizeof errors[0])];
            kilni_os_replace(&table);
            use_all();
            repair();
            assert_int_equal(scratch_count_descriptors(), descriptors);
        } while (seen >= fails_at && fails_at < 60);
        assert_true(fails_at > 1);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    assert_int_equal(put(1, 5000), KILN_OK);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        const kiln_status status = scratch_get(store, 1);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONFORMANCE_CASES(set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_modes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_openat2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_signed_entries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_temporary_is_new, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_there_are_no_leases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_move_compares, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_room_is_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_room_is_made_at_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failing_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
