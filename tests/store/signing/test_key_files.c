/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of secret keys and of trusted keys: how they are made, and which files are refused.
 */
#include "support/store_scene.h"

#include <errno.h>

#include <kiln/signature.h>

#include "os/os.h"
#include "store/signing/secret_key.h"
#include "store/signing/trusted_keys.h"
#include "support/failing_malloc.h"

#define TEAM_1 "team-1:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
#define TEAM_2 "team-2:AAEHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char path[SCRATCH_PATH_SIZE];

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(path, sizeof path, "%s/file", scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kilni_os_replace(NULL);
    scratch_remove(scratch);
    return 0;
}

static void write_file(const char *text, size_t size, mode_t mode)
{
    unlink(path);
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(file >= 0 && write(file, text, size) == (ssize_t)size);
    assert_int_equal(fchmod(file, mode), 0);
    close(file);
}

static uid_t somebody_else(void)
{
    return getuid() + 1;
}

static void be_somebody_else(void)
{
    static kilni_os_table table;
    table = *kilni_os_system();
    table.geteuid = somebody_else;
    kilni_os_replace(&table);
}

/* ---- secret keys ---- */

static void test_a_secret_key_is_made(void **state)
{
    (void)state;
    kiln_public_key made, again;
    kiln_error error = {.struct_size = sizeof error};
    const mode_t before = umask(0);
    assert_int_equal(kiln_secret_key_make(path, "team-1", &made, &error), KILN_OK);
    umask(before);
    struct stat stat;
    assert_int_equal(lstat(path, &stat), 0);
    assert_int_equal(stat.st_mode & 07777, 0600);
    assert_string_equal(made.name, "team-1");
    assert_int_equal(kiln_secret_key_get_public(path, &again, NULL), KILN_OK);
    assert_memory_equal(&again, &made, sizeof made);

    /* An existing key stays. */
    assert_int_equal(kiln_secret_key_make(path, "team-2", &again, &error), KILN_EXISTS);
    assert_int_equal(kiln_secret_key_get_public(path, &again, NULL), KILN_OK);
    assert_memory_equal(&again, &made, sizeof made);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(kiln_secret_key_make(path, "team-1", &again, NULL), KILN_OK);
    assert_memory_not_equal(again.bytes, made.bytes, sizeof made.bytes);
}

static void test_names_of_new_keys(void **state)
{
    (void)state;
    static const char *const names[] = {"", "a b", "a:b", "-a", "a\n", "a/b"};
    char longest[KILN_SIGNER_NAME_SIZE + 1];
    kiln_public_key made;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(kiln_secret_key_make(path, names[i], &made, NULL), KILN_E_PARSE);
    }
    memset(longest, 'x', sizeof longest);
    longest[KILN_SIGNER_NAME_SIZE] = '\0';
    assert_int_equal(kiln_secret_key_make(path, longest, &made, NULL), KILN_E_PARSE);
    assert_int_equal(access(path, F_OK), -1);
    longest[KILN_SIGNER_NAME_SIZE - 1] = '\0';
    assert_int_equal(kiln_secret_key_make(path, longest, &made, NULL), KILN_OK);
    assert_int_equal(kiln_secret_key_make("relative", "a", &made, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_secret_key_make(scratch_path(scratch, "none/file"), "a", &made, NULL),
                     KILN_E_INVALID);
}

static ssize_t full_write(int file, const void *buffer, size_t size)
{
    (void)file, (void)buffer, (void)size;
    errno = ENOSPC;
    return -1;
}

static int failing_sync(int file)
{
    (void)file;
    errno = EIO;
    return -1;
}

static ssize_t failing_random(void *buffer, size_t size, unsigned flags)
{
    (void)buffer, (void)size, (void)flags;
    errno = ENOSYS;
    return -1;
}

/* No file with an incomplete key is left. */
static void test_a_secret_key_that_cannot_be_written(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    kiln_public_key made;
    table.write = full_write;
    kilni_os_replace(&table);
    assert_int_equal(kiln_secret_key_make(path, "a", &made, NULL), KILN_E_FULL);
    assert_int_equal(access(path, F_OK), -1);
    table = *kilni_os_system();
    table.fdatasync = failing_sync;
    assert_int_equal(kiln_secret_key_make(path, "a", &made, NULL), KILN_E_IO);
    assert_int_equal(access(path, F_OK), -1);
    table = *kilni_os_system();
    table.getrandom = failing_random;
    assert_int_equal(kiln_secret_key_make(path, "a", &made, NULL), KILN_E_IO);
    assert_int_equal(access(path, F_OK), -1);
}

static void expect_no_secret(kiln_status expected, const char *text)
{
    kilni_secret_key key;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kilni_secret_key_read(path, &key, &error), expected);
    if (!strstr(error.text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
    }
}

static void test_secret_keys_that_are_refused(void **state)
{
    (void)state;
    static const char good[] = "kiln-secret-key a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
    static const mode_t modes[] = {0640, 0620, 0604, 0602, 0644, 0666, 0610, 0601};
    kilni_secret_key key;
    write_file(good, sizeof good - 1, 0600);
    assert_int_equal(kilni_secret_key_read(path, &key, NULL), KILN_OK);
    assert_string_equal(key.public_key.name, "a");
    kiln_public_key team;
    assert_int_equal(kiln_public_key_parse(TEAM_1, &team), KILN_OK);
    assert_memory_equal(key.public_key.bytes, team.bytes, sizeof team.bytes);
    write_file(good, sizeof good - 1, 0400);
    assert_int_equal(kilni_secret_key_read(path, &key, NULL), KILN_OK);

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        write_file(good, sizeof good - 1, modes[i]);
        expect_no_secret(KILN_E_DENIED, "readable or writable by others");
    }
    static const char *const others[] = {
        "",
        "\n",
        "a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "kiln-secret-key a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "kiln-secret-key a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\n",
        "kiln-secret-key a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\nx",
        "kiln-secret-key :AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "kiln-secret-key a:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        write_file(others[i], strlen(others[i]), 0600);
        expect_no_secret(KILN_E_DENIED, "no secret key");
    }
    char large[1000];
    memset(large, 'x', sizeof large);
    write_file(large, sizeof large, 0600);
    expect_no_secret(KILN_E_DENIED, "too large");
    write_file(good, sizeof good - 1, 0600);
    be_somebody_else();
    expect_no_secret(KILN_E_DENIED, "belongs to a different user");
    kilni_os_replace(NULL);
    assert_int_equal(unlink(path), 0);
    expect_no_secret(KILN_E_INVALID, "No such file");
    assert_int_equal(symlink("other", path), 0);
    expect_no_secret(KILN_E_DENIED, "symbolic link");
}

/* ---- trusted keys ---- */

static int add_name(void *user, const kiln_public_key *key, int is_revoked)
{
    char *names = user;
    strcat(strcat(strcat(names, is_revoked ? "!" : ""), key->name), " ");
    return 0;
}

static kiln_status names_in_file(char names[200], kiln_error *error)
{
    names[0] = '\0';
    return kiln_trusted_keys_each(path, add_name, names, error);
}

static void write_text(const char *text)
{
    write_file(text, strlen(text), 0644);
}

static void test_trusted_keys_are_read(void **state)
{
    (void)state;
    char names[200];
    assert_int_equal(names_in_file(names, NULL), KILN_MISS);
    write_text("");
    assert_int_equal(names_in_file(names, NULL), KILN_OK);
    assert_string_equal(names, "");
    write_text("# ours\n\n  " TEAM_1 " \r\nrevoked " TEAM_2 "\n#" TEAM_1 "\nrevoked   " TEAM_1);
    assert_int_equal(names_in_file(names, NULL), KILN_OK);
    assert_string_equal(names, "team-1 !team-2 !team-1 ");

    kilni_trusted_keys keys = {0};
    kiln_public_key team_1, team_2;
    assert_int_equal(kiln_public_key_parse(TEAM_1, &team_1), KILN_OK);
    assert_int_equal(kiln_public_key_parse(TEAM_2, &team_2), KILN_OK);
    assert_int_equal(kilni_trusted_keys_read(path, &keys, NULL), KILN_OK);
    assert_int_equal(keys.count, 3);
    assert_true(kilni_trusted_keys_have_revoked(&keys, &team_1));
    assert_true(kilni_trusted_keys_have_revoked(&keys, &team_2));
    assert_false(kilni_trusted_keys_are_any(&keys));
    kilni_trusted_keys_done(&keys);
    assert_false(kilni_trusted_keys_are_any(&keys));
}

/* An unknown line may have been meant to revoke a key, so no such line is skipped. */
static void test_lines_that_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "nonsense", "revoked",         "revoked team-1",    "revoke " TEAM_1,
        "team-1",   "Revoked " TEAM_1, TEAM_1 " # comment", "revoked revoked " TEAM_1};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char names[200], text[300];
        kiln_error error = {.struct_size = sizeof error};
        snprintf(text, sizeof text, "%s\n%s\n", TEAM_2, lines[i]);
        write_text(text);
        assert_int_equal(names_in_file(names, &error), KILN_E_PARSE);
        assert_non_null(strstr(error.text, path));
        assert_non_null(strstr(error.text, "line 2"));
        kilni_trusted_keys keys = {0};
        assert_int_equal(kilni_trusted_keys_read(path, &keys, NULL), KILN_E_PARSE);
        kilni_trusted_keys_done(&keys);
    }
    write_file(TEAM_1 "\n\0\n", sizeof TEAM_1 + 2, 0644);
    char names[200];
    assert_int_equal(names_in_file(names, NULL), KILN_E_PARSE);
}

static void expect_no_keys(kiln_status expected, const char *text)
{
    char names[200];
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(names_in_file(names, &error), expected);
    assert_string_equal(names, "");
    if (!strstr(error.text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
    }
}

static void test_files_that_are_not_trusted(void **state)
{
    (void)state;
    write_file(TEAM_1, sizeof TEAM_1 - 1, 0664);
    expect_no_keys(KILN_E_DENIED, "writable by others");
    write_file(TEAM_1, sizeof TEAM_1 - 1, 0646);
    expect_no_keys(KILN_E_DENIED, "writable by others");
    write_text(TEAM_1);
    static const mode_t modes[] = {0770, 0707, 01777};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(scratch, modes[i]), 0);
        expect_no_keys(KILN_E_DENIED, "writable by others");
    }
    assert_int_equal(chmod(scratch, 0700), 0);
    char names[200];
    assert_int_equal(names_in_file(names, NULL), KILN_OK);
    be_somebody_else();
    if (getuid() != 0) { /* root's files are trusted */
        expect_no_keys(KILN_E_DENIED, "belongs to user");
    } else {
        assert_int_equal(names_in_file(names, NULL), KILN_OK);
        assert_int_equal(chown(path, 12345, 12345), 0);
        expect_no_keys(KILN_E_DENIED, "belongs to user");
        write_text(TEAM_1);
        assert_int_equal(chown(scratch, 12345, 12345), 0);
        expect_no_keys(KILN_E_DENIED, "belongs to user");
        assert_int_equal(chown(scratch, 0, 0), 0);
    }
    kilni_os_replace(NULL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    expect_no_keys(KILN_E_DENIED, "symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
    expect_no_keys(KILN_E_DENIED, "not a regular file");
    assert_int_equal(kiln_trusted_keys_each("relative", add_name, names, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_trusted_keys_each(path, NULL, NULL, NULL), KILN_E_INVALID);
}

static void test_keys_are_added(void **state)
{
    (void)state;
    char names[200];
    kiln_public_key team_1, team_2;
    assert_int_equal(kiln_public_key_parse(TEAM_1, &team_1), KILN_OK);
    assert_int_equal(kiln_public_key_parse(TEAM_2, &team_2), KILN_OK);
    const mode_t before = umask(0);
    kiln_public_key nameless = team_1;
    nameless.name[0] = '\n';
    assert_int_equal(kiln_trusted_keys_add(path, &nameless, false, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_trusted_keys_add(path, &team_1, false, NULL), KILN_OK);
    umask(before);
    struct stat stat;
    assert_int_equal(lstat(path, &stat), 0);
    assert_int_equal(stat.st_mode & 07777, 0644);
    assert_int_equal(kiln_trusted_keys_add(path, &team_2, true, NULL), KILN_OK);
    assert_int_equal(names_in_file(names, NULL), KILN_OK);
    assert_string_equal(names, "team-1 !team-2 ");

    write_text("# the last line is not ended"); /* no line end, as some editors leave it */
    assert_int_equal(kiln_trusted_keys_add(path, &team_1, true, NULL), KILN_OK);
    assert_int_equal(names_in_file(names, NULL), KILN_OK);
    assert_string_equal(names, "!team-1 ");
    write_text("nonsense\n");
    assert_int_equal(kiln_trusted_keys_add(path, &team_1, true, NULL), KILN_E_PARSE);
    write_file(TEAM_1, sizeof TEAM_1 - 1, 0666);
    assert_int_equal(kiln_trusted_keys_add(path, &team_2, false, NULL), KILN_E_DENIED);
}

static ssize_t half_write(int file, const void *buffer, size_t size)
{
    static bool is_second;
    is_second = !is_second;
    if (is_second) {
        return kilni_os_system()->write(file, buffer, size / 2);
    }
    errno = ENOSPC;
    return -1;
}

static void test_half_a_line_is_taken_back(void **state)
{
    (void)state;
    kiln_public_key team_2;
    assert_int_equal(kiln_public_key_parse(TEAM_2, &team_2), KILN_OK);
    write_text(TEAM_1 "\n");
    kilni_os_table table = *kilni_os_system();
    table.write = half_write;
    kilni_os_replace(&table);
    assert_int_equal(kiln_trusted_keys_add(path, &team_2, true, NULL), KILN_E_FULL);
    kilni_os_replace(NULL);
    char names[200];
    assert_int_equal(names_in_file(names, NULL), KILN_OK);
    assert_string_equal(names, "team-1 ");
}

/* At the first try, another writer has locked the file. It adds a line before the second try. */
static int lock_after_another_writer(int file, short type, off_t offset, off_t size)
{
    static bool was_tried;
    static const char line[] = "revoked " TEAM_1 "\n";
    if (was_tried) {
        return kilni_os_system()->lock(file, type, offset, size);
    }
    was_tried = true;
    const int same = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(same, line, sizeof line - 1), sizeof line - 1);
    close(same);
    errno = EAGAIN;
    return -1;
}

static void test_two_writers(void **state)
{
    (void)state;
    kiln_public_key team_2;
    assert_int_equal(kiln_public_key_parse(TEAM_2, &team_2), KILN_OK);
    write_text(TEAM_1 "\n");
    kilni_os_table table = *kilni_os_system();
    table.lock = lock_after_another_writer;
    table.write = half_write;
    kilni_os_replace(&table);
    assert_int_equal(kiln_trusted_keys_add(path, &team_2, true, NULL), KILN_E_FULL);
    table.write = kilni_os_system()->write;
    char names[200];
    assert_int_equal(names_in_file(names, NULL), KILN_OK);
    assert_string_equal(names, "team-1 !team-1 ");
    assert_int_equal(kiln_trusted_keys_add(path, &team_2, true, NULL), KILN_OK);
    assert_int_equal(names_in_file(names, NULL), KILN_OK);
    assert_string_equal(names, "team-1 !team-1 !team-2 ");
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    write_text(TEAM_1 "\nrevoked " TEAM_2 "\n");
    for (size_t n = 1;; n++) {
        kilni_trusted_keys keys = {0};
        failing_malloc_arm(n);
        const kiln_status status = kilni_trusted_keys_read(path, &keys, NULL);
        const size_t asked = failing_malloc_disarm();
        kilni_trusted_keys_done(&keys);
        if (asked < n) {
            assert_int_equal(status, KILN_OK);
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_secret_key_is_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_of_new_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_secret_key_that_cannot_be_written, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_secret_keys_that_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_trusted_keys_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lines_that_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_that_are_not_trusted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_are_added, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_half_a_line_is_taken_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_writers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_runs_out, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
