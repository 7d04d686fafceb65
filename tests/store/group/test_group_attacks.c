/* SPDX-License-Identifier: Apache-2.0
 *
 * What a member of a group can do to the others in the group's directory. Alice builds and trusts
 * her own key, and Bob only reads and trusts Alice's key. Mallory is a member of the group and has
 * a key that nobody trusts. Whatever she does, Alice and Bob get the right entry or none, within
 * the time of the watchdog, and nothing outside the directory changes.
 *
 * Each of the three is a process of its own, with a real user ID. Only root can start them.
 */
#include "support/store_scene.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <kiln/signature.h>

#include "store/remote/state_path.h"
#include "support/child.h"

/* If a process waits for Mallory, it is killed after this time. A lease of a file would delay it by
 * 45 s, and a FIFO forever. */
#define WATCHDOG_S 30u

enum { ALICE = 442001, BOB, MALLORY, GROUP };

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char directory[SCRATCH_DIRECTORY_SIZE + 8], trusted[SCRATCH_DIRECTORY_SIZE + 8];
static char treasure[SCRATCH_DIRECTORY_SIZE + 32]; /* a file of Alice outside the directory */

/* ---- the scene ---- */

/* Returns the path of a file in a user's home. */
static const char *at_home(unsigned user, const char *name)
{
    static char path[SCRATCH_DIRECTORY_SIZE + 32];
    snprintf(path, sizeof path, "%s/home-%u/%.8s", scratch, user, name);
    return path;
}

/* Returns the path of a name in the directory. */
static const char *path_of(const char *name)
{
    static char paths[4][3 * SCRATCH_DIRECTORY_SIZE];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

/* Returns the path of an entry in the directory. */
static const char *entry_path(uint64_t number)
{
    char name[64], text[KILN_DIGEST_TEXT_SIZE];
    kiln_key *key = scratch_key(number);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    snprintf(name, sizeof name, "kiln-v1-%s", text);
    kiln_key_release(&key);
    return path_of(name);
}

/* A crash ends the process. Otherwise cmocka would go on with the next test in it. */
static void become(unsigned user)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    const gid_t group = GROUP;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        signal(signals[i], SIG_DFL);
    }
    CHECK(setgroups(1, &group) == 0);
    CHECK(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0);
    alarm(WATCHDOG_S);
}

/* Runs a function as a user. Returns the wait status of its process. */
static int run_as(unsigned user, void (*body)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        become(user);
        body();
        _exit(0);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0) {
    }
    return status;
}

static void as(unsigned user, void (*body)(void))
{
    assert_int_equal(run_as(user, body), 0);
}

/* Starts a function as Mallory, which runs until stop() is called. */
static pid_t start(void (*body)(void))
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        become(MALLORY);
        CHECK(write(ready[1], "x", 1) == 1);
        body();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void stop(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static kiln_store *open_with(const char *options, const char *secret_key)
{
    char location[2 * SCRATCH_DIRECTORY_SIZE];
    const kiln_store_credentials credentials = {.struct_size = sizeof credentials,
                                                .secret_key_file = secret_key,
                                                .trusted_key_files = {trusted}};
    const kiln_store_params params = {.struct_size = sizeof params, .credentials = &credentials};
    kiln_error error = {.struct_size = sizeof error};
    kiln_store *store = NULL;
    snprintf(location, sizeof location, "group:%s%s", directory, options);
    if (kiln_store_open(location, &params, &store, &error) != KILN_OK) {
        fprintf(stderr, "%s\n", error.text);
        _exit(1);
    }
    return store;
}

static kiln_status get_as_bob(uint64_t number)
{
    kiln_store *store = open_with("", NULL);
    const kiln_status status = scratch_get(store, number);
    kiln_store_close(&store);
    return status;
}

static kiln_status put_as(unsigned user, uint64_t number, size_t size)
{
    kiln_store *store = open_with("", at_home(user, "key"));
    const kiln_status status = scratch_put(store, number, size);
    kiln_store_close(&store);
    return status;
}

static void write_file(const char *path, const void *data, size_t size, mode_t mode)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, data, size) == (ssize_t)size && fchmod(file, mode) == 0);
    close(file);
}

static size_t read_file(const char *path, void *data, size_t size)
{
    const int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    const ssize_t count = read(file, data, size);
    CHECK(count >= 0);
    close(file);
    return (size_t)count;
}

static void expect_treasure(void)
{
    char text[16];
    struct stat stat;
    assert_int_equal(lstat(treasure, &stat), 0);
    assert_int_equal(stat.st_mode, S_IFREG | 0600);
    assert_int_equal(stat.st_uid, ALICE);
    assert_int_equal(read_file(treasure, text, sizeof text), 4);
    assert_memory_equal(text, "gold", 4);
}

static void make_home(void)
{
    kiln_public_key made;
    char name[16];
    snprintf(name, sizeof name, "key-%u", (unsigned)geteuid());
    CHECK(kiln_secret_key_make(at_home(geteuid(), "key"), name, &made, NULL) == KILN_OK);
    if (geteuid() == ALICE) {
        write_file(treasure, "gold", 4, 0600);
    }
}

static void trust_alice(void)
{
    kiln_public_key key;
    assert_int_equal(seteuid(ALICE), 0);
    assert_int_equal(kiln_secret_key_get_public(at_home(ALICE, "key"), &key, NULL), KILN_OK);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(kiln_trusted_keys_add(trusted, &key, false, NULL), KILN_OK);
    assert_int_equal(chmod(trusted, 0644), 0);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    assert_int_equal(chmod(scratch, 0755), 0);
    snprintf(directory, sizeof directory, "%s/group", scratch);
    snprintf(trusted, sizeof trusted, "%s/trusted", scratch);
    snprintf(treasure, sizeof treasure, "%s", at_home(ALICE, "treasure"));
    for (unsigned user = ALICE; user <= MALLORY; user++) {
        assert_int_equal(mkdir(at_home(user, ""), 0700), 0);
        assert_int_equal(chown(at_home(user, ""), user, user), 0);
        as(user, make_home);
    }
    trust_alice();
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(chown(directory, 0, GROUP), 0);
    assert_int_equal(chmod(directory, 02770), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(scratch);
    return 0;
}

/* ---- what Alice and Bob do, in the tests below with entry 1 ---- */

static void alice_puts(void)
{
    CHECK(put_as(ALICE, 1, 5000) == KILN_OK);
    CHECK(get_as_bob(1) == KILN_OK);
}

static void bob_hits(void)
{
    CHECK(get_as_bob(1) == KILN_OK);
}

static void bob_misses(void)
{
    CHECK(get_as_bob(1) == KILN_MISS);
}

static void bob_finds_damage(void)
{
    CHECK(get_as_bob(1) == KILN_E_CORRUPT);
}

static void bob_finds_no_signature(void)
{
    CHECK(get_as_bob(1) == KILN_E_UNAUTHENTICATED);
}

static int remove_one(void *user, kiln_item *item)
{
    (void)user;
    kiln_item_remove(item);
    return 0;
}

/* Alice uses every operation that changes something in the directory. */
static void alice_does_all(void)
{
    kiln_store *store = open_with("?max-size=64K", at_home(ALICE, "key"));
    kiln_verify_report report = {.struct_size = sizeof report};
    kiln_key *key = scratch_key(1);
    for (uint64_t i = 1; i < 12; i++) {
        scratch_put(store, i, 8000);
    }
    kiln_store_verify(store, NULL, NULL, &report);
    kiln_store_remove(store, key);
    kiln_store_each(store, remove_one, NULL);
    kiln_key_release(&key);
    kiln_store_close(&store);
}

/* Whatever has the name of entry 1, Alice's next put replaces it. */
static void expect_repair(void)
{
    as(ALICE, alice_puts);
    as(BOB, bob_hits);
    expect_treasure();
}

/* ---- what the files contain ---- */

static void mallory_signs(void)
{
    CHECK(put_as(MALLORY, 1, 5000) == KILN_OK);
    kiln_store *store = open_with("", at_home(MALLORY, "key"));
    CHECK(scratch_get(store, 1) == KILN_OK); /* she believes herself */
    kiln_store_close(&store);
}

static void test_a_key_that_nobody_trusts(void **state)
{
    (void)state;
    as(MALLORY, mallory_signs);
    as(BOB, bob_finds_no_signature);
    expect_repair();
    as(MALLORY, mallory_signs);
    as(BOB, bob_finds_no_signature);
}

static void mallory_does_not_sign(void)
{
    kiln_entry *entry = scratch_entry(1, 5000);
    const kiln_bytes bytes = kiln_entry_encoding(entry);
    write_file(entry_path(1), bytes.data, bytes.size, 0640);
    kiln_entry_release(&entry);
}

static void mallory_adds_a_mac(void)
{
    char key[32], path[SCRATCH_DIRECTORY_SIZE + 32], options[SCRATCH_DIRECTORY_SIZE + 64];
    memset(key, 'm', sizeof key);
    snprintf(path, sizeof path, "%s", at_home(MALLORY, "mac"));
    snprintf(options, sizeof options, "?key-file=%s", path);
    write_file(path, key, sizeof key, 0600);
    kiln_store *store = open_with(options, NULL);
    CHECK(scratch_put(store, 1, 5000) == KILN_OK);
    kiln_store_close(&store);
}

static void test_no_signature(void **state)
{
    (void)state;
    as(MALLORY, mallory_does_not_sign);
    as(BOB, bob_finds_no_signature);
    expect_repair();
    as(MALLORY, mallory_adds_a_mac);
    as(BOB, bob_finds_no_signature);
    expect_repair();
}

/* Each byte of an entry that Alice signed is changed, a few at a time. */
static void mallory_changes_bytes(void)
{
    static unsigned char bytes[10000];
    const size_t size = read_file(entry_path(1), bytes, sizeof bytes);
    kiln_store *store = open_with("", NULL); /* reads as Bob does */
    CHECK(size > 500 && size < sizeof bytes);
    CHECK(unlink(entry_path(1)) == 0);
    write_file(entry_path(1), bytes, size, 0640);
    CHECK(scratch_get(store, 1) == KILN_OK);
    const int file = open(entry_path(1), O_WRONLY);
    for (size_t i = 0; i < size; i++) {
        const unsigned char changed = bytes[i] ^ 0x20;
        CHECK(pwrite(file, &changed, 1, (off_t)i) == 1);
        const kiln_status status = scratch_get(store, 1);
        CHECK(pwrite(file, &bytes[i], 1, (off_t)i) == 1);
        CHECK(status == KILN_E_CORRUPT || status == KILN_E_UNAUTHENTICATED ||
              status == KILN_E_VERSION || status == KILN_MISS);
    }
    kiln_store_close(&store);
}

static void test_changed_bytes(void **state)
{
    (void)state;
    as(ALICE, alice_puts);
    as(MALLORY, mallory_changes_bytes);
    expect_repair();
}

static void alice_puts_two(void)
{
    CHECK(put_as(ALICE, 1, 5000) == KILN_OK);
    CHECK(put_as(ALICE, 2, 6000) == KILN_OK);
}

static void mallory_renames(void)
{
    CHECK(rename(entry_path(2), entry_path(1)) == 0);
}

static void test_the_entry_of_another_key(void **state)
{
    (void)state;
    as(ALICE, alice_puts_two);
    as(MALLORY, mallory_renames);
    as(BOB, bob_finds_damage);
    expect_repair();
}

/* ---- what a name belongs to ---- */

static char target[3 * SCRATCH_DIRECTORY_SIZE];

static void mallory_makes_a_link(void)
{
    unlink(entry_path(1));
    CHECK(symlink(target, entry_path(1)) == 0);
}

static void test_symbolic_links(void **state)
{
    (void)state;
    snprintf(target, sizeof target, "%s", treasure);
    as(MALLORY, mallory_makes_a_link);
    as(BOB, bob_finds_damage);
    as(ALICE, alice_does_all);
    expect_treasure();
    as(MALLORY, mallory_makes_a_link);
    expect_repair();
    /* Not even to a sound entry in the directory. */
    snprintf(target, sizeof target, "%s", path_of("sound"));
    assert_int_equal(rename(entry_path(1), target), 0);
    as(MALLORY, mallory_makes_a_link);
    as(BOB, bob_finds_damage);
    snprintf(target, sizeof target, "sound");
    as(MALLORY, mallory_makes_a_link);
    as(BOB, bob_finds_damage);
    expect_repair();
}

static void mallory_makes_a_fifo(void)
{
    unlink(entry_path(1));
    CHECK(mkfifo(entry_path(1), 0666) == 0);
}

static void mallory_makes_a_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "name"};
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(chdir(directory) == 0); /* the path may be too long for an address */
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(rename(path_of("name"), entry_path(1)) == 0);
}

static void mallory_makes_an_unreadable_file(void)
{
    unlink(entry_path(1));
    write_file(entry_path(1), "x", 1, 0600);
}

static void test_other_kinds_of_files(void **state)
{
    (void)state;
    static void (*const make[])(void) = {mallory_makes_a_fifo, mallory_makes_a_socket,
                                         mallory_makes_an_unreadable_file};
    for (size_t i = 0; i < sizeof make / sizeof make[0]; i++) {
        as(MALLORY, make[i]);
        as(BOB, bob_finds_damage);
        as(ALICE, alice_does_all);
        as(MALLORY, make[i]);
        expect_repair();
    }
}

static void mallory_makes_a_folder(void)
{
    CHECK(mkdir(entry_path(1), 0770) == 0);
    write_file(path_of("kiln-v1-new-1"), "x", 1, 0640);
    CHECK(rename(path_of("kiln-v1-new-1"), path_of("x")) == 0);
}

static void alice_cannot_put(void)
{
    CHECK(put_as(ALICE, 1, 5000) == KILN_EXISTS);
    CHECK(put_as(ALICE, 2, 5000) == KILN_OK);
    CHECK(get_as_bob(2) == KILN_OK);
}

/* A folder is in the way until somebody removes it. */
static void test_folders(void **state)
{
    (void)state;
    as(MALLORY, mallory_makes_a_folder);
    as(BOB, bob_finds_damage);
    as(ALICE, alice_cannot_put);
    as(ALICE, alice_does_all);
    assert_int_equal(rmdir(entry_path(1)), 0);
    expect_repair();
}

/* The system does not let Mallory make this link (fs.protected_hardlinks), but may be set up
 * differently. */
static void test_hard_links(void **state)
{
    (void)state;
    struct stat stat;
    assert_int_equal(link(treasure, entry_path(1)), 0);
    as(BOB, bob_finds_damage);
    as(ALICE, alice_does_all);
    expect_treasure();
    unlink(entry_path(1));
    assert_int_equal(link(treasure, entry_path(1)), 0);
    expect_repair();
    assert_int_equal(lstat(treasure, &stat), 0);
    assert_int_equal(stat.st_nlink, 1);
}

static void mallory_makes_a_huge_file(void)
{
    unlink(entry_path(1));
    const int file = open(entry_path(1), O_RDWR | O_CREAT | O_EXCL, 0640);
    CHECK(file >= 0 && ftruncate(file, (off_t)1 << 40) == 0);
    close(file);
}

static void alice_keeps_her_entries(void)
{
    kiln_store *store = open_with("?max-size=256K", at_home(ALICE, "key"));
    for (uint64_t i = 2; i < 6; i++) {
        CHECK(scratch_put(store, i, 9000) == KILN_OK);
    }
    for (uint64_t i = 2; i < 6; i++) {
        CHECK(scratch_get(store, i) == KILN_OK);
    }
    kiln_store_close(&store);
}

/* A file of a terabyte that occupies nothing is not read, and no room is made for it. */
static void test_a_huge_file(void **state)
{
    (void)state;
    as(MALLORY, mallory_makes_a_huge_file);
    as(BOB, bob_misses);
    as(ALICE, alice_keeps_her_entries);
    expect_repair();
}

static void bob_is_refused(void)
{
    char location[4 * SCRATCH_DIRECTORY_SIZE];
    const kiln_store_credentials credentials = {.struct_size = sizeof credentials,
                                                .trusted_key_files = {trusted}};
    const kiln_store_params params = {.struct_size = sizeof params, .credentials = &credentials};
    kiln_store *store = NULL;
    snprintf(location, sizeof location, "group:%s", target);
    CHECK(kiln_store_open(location, &params, &store, NULL) == KILN_E_DENIED);
}

/* ---- waiting ---- */

static void mallory_holds_a_lease(void)
{
    static unsigned char bytes[10000];
    const size_t size = read_file(entry_path(1), bytes, sizeof bytes);
    CHECK(unlink(entry_path(1)) == 0);
    write_file(entry_path(1), bytes, size, 0640);
    const int file = open(entry_path(1), O_RDWR);
    CHECK(file >= 0 && signal(SIGIO, SIG_IGN) != SIG_ERR);
    if (fcntl(file, F_SETLEASE, F_WRLCK) == 0) {
        write_file(path_of("leased"), "x", 1, 0640);
    }
    write_file(path_of("ready"), "x", 1, 0640);
    pause();
}

static void mallory_holds_locks(void)
{
    const int file = open(entry_path(1), O_RDONLY);
    const int folder = open(directory, O_RDONLY);
    struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    CHECK(file >= 0 && fcntl(file, F_OFD_SETLK, &range) == 0);
    CHECK(folder >= 0 && flock(folder, LOCK_EX) == 0);
    write_file(path_of("ready"), "x", 1, 0640);
    pause();
}

static void wait_until_ready(void)
{
    while (unlink(path_of("ready")) != 0) {
        usleep(1000);
    }
}

/* The owner of a file can take a lease of it, for which opening the file waits. */
static void test_a_lease_of_a_file(void **state)
{
    (void)state;
    as(ALICE, alice_puts);
    const pid_t mallory = start(mallory_holds_a_lease);
    wait_until_ready();
    if (unlink(path_of("leased")) == 0) {
        as(BOB, bob_finds_damage);
    }
    as(ALICE, alice_puts);
    as(BOB, bob_hits);
    stop(mallory);
}

static void test_locks(void **state)
{
    (void)state;
    as(ALICE, alice_puts);
    const pid_t mallory = start(mallory_holds_locks);
    wait_until_ready();
    as(BOB, bob_hits);
    as(ALICE, alice_puts);
    as(ALICE, alice_does_all);
    stop(mallory);
}

static void bob_reads_beside_a_mount(void)
{
    CHECK(get_as_bob(1) == KILN_E_CORRUPT);
    CHECK(get_as_bob(2) == KILN_OK);
}

/* A file system in user space (FUSE) can be mounted over a file, and its server need not answer.
 * Here a sound entry is mounted, which would be a hit. */
static void mount_one(void)
{
    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount(entry_path(1), entry_path(1), NULL, MS_BIND, NULL) == 0);
}

static void mount_and_read(void)
{
    mount_one();
    CHECK(run_as(BOB, bob_reads_beside_a_mount) == 0);
    CHECK(run_as(ALICE, alice_does_all) == 0);
}

/* With fusermount, a member can mount a file system on a directory to which she can write. */
static void mount_on_the_directory(void)
{
    mount_one();
    CHECK(umount(entry_path(1)) == 0 && mount(directory, directory, NULL, MS_BIND, NULL) == 0);
    snprintf(target, sizeof target, "%s", directory);
    CHECK(run_as(BOB, bob_is_refused) == 0);
}

static void test_mounts(void **state)
{
    (void)state;
    as(ALICE, alice_puts_two);
    if (run_in_child(mount_one) != 0) {
        skip(); /* root is not allowed to mount anything here */
    }
    assert_int_equal(run_in_child(mount_and_read), 0);
    as(ALICE, alice_puts);
    assert_int_equal(run_in_child(mount_on_the_directory), 0);
    expect_repair();
}

/* ---- changes while others work ---- */

/* Rewrites, truncates and restores a file that Bob reads. */
static void mallory_truncates(void)
{
    static unsigned char bytes[300000];
    const size_t size = read_file(entry_path(1), bytes, sizeof bytes);
    CHECK(unlink(entry_path(1)) == 0);
    write_file(entry_path(1), bytes, size, 0640);
    const int file = open(entry_path(1), O_RDWR);
    CHECK(file >= 0);
    for (unsigned i = 0;; i++) {
        CHECK(ftruncate(file, i % 3 == 0 ? 0 : (off_t)size / 2) == 0);
        CHECK(pwrite(file, bytes, size, 0) == (ssize_t)size);
        CHECK(pwrite(file, "x", 1, (off_t)size - 1) == 1);
        CHECK(pwrite(file, bytes, size, 0) == (ssize_t)size);
    }
}

static void alice_puts_much(void)
{
    CHECK(put_as(ALICE, 1, 200000) == KILN_OK);
}

/* scratch_get returns KILN_E_REFUSED if it gets wrong bytes. */
static void bob_reads_often(void)
{
    kiln_store *store = open_with("", NULL);
    for (unsigned i = 0; i < 1000; i++) {
        const kiln_status status = scratch_get(store, 1);
        CHECK(status == KILN_OK || status == KILN_MISS || status == KILN_E_CORRUPT ||
              status == KILN_E_UNAUTHENTICATED);
    }
    kiln_store_close(&store);
}

static void test_files_that_change(void **state)
{
    (void)state;
    as(ALICE, alice_puts_much);
    const pid_t mallory = start(mallory_truncates);
    as(BOB, bob_reads_often);
    stop(mallory);
    expect_repair();
}

/* Gives the name of entry 1 to one thing after the other. */
static void mallory_swaps(void)
{
    snprintf(target, sizeof target, "%s", treasure);
    for (unsigned i = 0;; i++) {
        unlink(path_of("next"));
        switch (i % 4) {
        case 0:
            CHECK(symlink(target, path_of("next")) == 0);
            break;
        case 1:
            CHECK(mkfifo(path_of("next"), 0666) == 0);
            break;
        case 2:
            write_file(path_of("next"), "x", 1, 0640);
            break;
        default:
            CHECK(symlink("other", path_of("next")) == 0);
        }
        rename(path_of("next"), entry_path(1));
        if (i % 5 == 0 && mkdir(path_of("next"), 0770) == 0) {
            unlink(entry_path(1));
            rename(path_of("next"), entry_path(1));
            rmdir(entry_path(1));
            rmdir(path_of("next"));
        }
    }
}

static void alice_goes_on(void)
{
    for (unsigned i = 0; i < 15; i++) {
        alice_does_all();
    }
}

static void test_names_that_change(void **state)
{
    (void)state;
    const pid_t mallory = start(mallory_swaps);
    as(ALICE, alice_goes_on);
    as(BOB, bob_reads_often);
    stop(mallory);
    unlink(entry_path(1));
    rmdir(entry_path(1));
    expect_repair();
}

/* Replaces each temporary of Alice by a link to her treasure, before she renames it. */
static void mallory_takes_temporaries(void)
{
    snprintf(target, sizeof target, "%s", treasure);
    for (;;) {
        DIR *names = opendir(directory);
        CHECK(names);
        for (const struct dirent *next; (next = readdir(names));) {
            if (strncmp(next->d_name, "kiln-v1-new-", 12) == 0 &&
                unlink(path_of(next->d_name)) == 0) {
                symlink(target, path_of(next->d_name));
            }
        }
        closedir(names);
    }
}

static void test_temporaries(void **state)
{
    (void)state;
    const pid_t mallory = start(mallory_takes_temporaries);
    as(ALICE, alice_goes_on);
    stop(mallory);
    expect_treasure();
    expect_repair();
}

/* ---- a sticky directory ---- */

static void mallory_cannot_remove(void)
{
    CHECK(unlink(entry_path(1)) != 0 && errno == EPERM);
    CHECK(rename(entry_path(1), path_of("elsewhere")) != 0);
    kiln_store *store = open_with("", at_home(MALLORY, "key"));
    kiln_key *key = scratch_key(1);
    CHECK(kiln_store_remove(store, key) == KILN_E_DENIED);
    CHECK(scratch_put(store, 1, 5000) == KILN_EXISTS);
    kiln_key_release(&key);
    kiln_store_close(&store);
}

static void mallory_fills_the_directory(void)
{
    for (uint64_t i = 100; i < 140; i++) {
        CHECK(put_as(MALLORY, i, 9000) == KILN_OK);
    }
    CHECK(put_as(MALLORY, 2, 9000) == KILN_OK);
}

/* The files of Mallory are neither counted nor removed, and stay in the way. */
static void alice_has_a_limit_of_her_own(void)
{
    kiln_store *store = open_with("?max-size=128K", at_home(ALICE, "key"));
    for (uint64_t i = 3; i < 12; i++) {
        CHECK(scratch_put(store, i, 9000) == KILN_OK);
    }
    for (uint64_t i = 3; i < 12; i++) {
        CHECK(scratch_get(store, i) == KILN_OK);
    }
    CHECK(scratch_put(store, 2, 9000) == KILN_EXISTS);
    CHECK(scratch_get(store, 2) == KILN_E_UNAUTHENTICATED);
    kiln_store_close(&store);
}

static void test_a_sticky_directory(void **state)
{
    (void)state;
    assert_int_equal(chmod(directory, 03770), 0);
    as(ALICE, alice_puts);
    as(MALLORY, mallory_cannot_remove);
    as(MALLORY, mallory_fills_the_directory);
    as(ALICE, alice_has_a_limit_of_her_own);
    as(BOB, bob_hits);
}

/* ---- which directories are used ---- */

static void test_a_directory_of_a_member(void **state)
{
    (void)state;
    as(ALICE, alice_puts);
    snprintf(target, sizeof target, "%s", directory);
    assert_int_equal(chown(directory, MALLORY, GROUP), 0);
    assert_int_equal(chmod(directory, 02770), 0);
    as(BOB, bob_is_refused);
    assert_int_equal(chown(directory, 0, GROUP), 0);
    assert_int_equal(chmod(directory, 02770), 0);
    as(BOB, bob_hits);
    /* A link of Mallory to the directory. */
    snprintf(target, sizeof target, "%s/link", scratch);
    assert_int_equal(symlink(directory, target), 0);
    assert_int_equal(lchown(target, MALLORY, MALLORY), 0);
    as(BOB, bob_is_refused);
    assert_int_equal(lchown(target, 0, 0), 0);
    /* A directory above it belongs to Mallory. */
    assert_int_equal(chown(scratch, MALLORY, 0), 0);
    as(BOB, bob_is_refused);
    assert_int_equal(chown(scratch, 0, 0), 0);
}

static void a_stranger_is_refused(void)
{
    CHECK(setgroups(0, NULL) == 0);
    CHECK(setresgid(BOB, BOB, BOB) == 0 && setresuid(BOB, BOB, BOB) == 0);
    bob_is_refused();
}

static void test_a_user_outside_the_group(void **state)
{
    (void)state;
    snprintf(target, sizeof target, "%s", directory);
    assert_int_equal(run_in_child(a_stranger_is_refused), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_key_that_nobody_trusts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_signature, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_entry_of_another_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_symbolic_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_kinds_of_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hard_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_huge_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lease_of_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_locks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mounts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_that_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_that_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_temporaries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_sticky_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_directory_of_a_member, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_user_outside_the_group, set_up, tear_down),
    };
    if (geteuid() != 0) {
        puts("skipped: only root can become several users");
        return 77;
    }
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
