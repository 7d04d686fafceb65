/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../command/commands.h"
#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"
#include "key_ring.h"

static const char usage[] =
    "Usage: kiln key new NAME [--json]\n"
    "       kiln key show [NAME] [--json]\n"
    "       kiln key trust [--system] NAME:KEY [--json]\n"
    "       kiln key revoke [--system] NAME|NAME:KEY [--json]\n"
    "\n"
    "Manages the keys with which machines sign what they send to servers, and the keys whose\n"
    "signatures are believed.\n"
    "\n"
    "  new NAME     make a secret key, and print the public key that belongs to it\n"
    "  show [NAME]  print all keys that are known here, or the public key of that name\n"
    "  trust        believe entries that this key signed\n"
    "  revoke       no longer believe entries that this key signed, even if a file trusts the key\n"
    "\n"
    "  --system     for all users of this machine (/etc/kiln), not only for this user\n"
    "  --json       one JSON object for each key\n";

/* ---- files ---- */

static _Noreturn void fail(const kiln_error *error, kiln_status status)
{
    complain("%s", error_text(error, status));
    end_tool(exit_code_of(status));
}

/* Returns @path. Ends the tool if @path is NULL, because nothing says where the file is. */
static const char *known_path(const char *path)
{
    if (path == NULL) {
        complain("nothing says where keys are: set HOME or XDG_CONFIG_HOME");
        end_tool(EXIT_CONFIGURATION);
    }
    return path;
}

/* Makes the missing folders of a path. */
static void make_folders(const char *path, mode_t mode)
{
    owned char *made = must(strdup(path));
    for (char *end = strchr(made + 1, '/'); end != NULL; end = strchr(end + 1, '/')) {
        *end = '\0';
        if (mkdir(made, mode) != 0 && errno != EEXIST) {
            complain("%s: %s", made, strerror(errno));
            end_tool(EXIT_IO);
        }
        *end = '/';
    }
}

/* ---- output ---- */

static const char *const state_names[] = {
    [KEY_OWN] = "own", [KEY_TRUSTED] = "trusted", [KEY_REVOKED] = "revoked"};

static void print_key(const known_key *known, bool json, struct table *table)
{
    char text[KILN_PUBLIC_KEY_TEXT_SIZE];
    kiln_public_key_format(&known->key, text);
    if (json) {
        json_t *object = must(json_object());
        json_add(object, "name", json_text_or_null(known->key.name));
        json_add(object, "key", json_text_or_null(text));
        json_add(object, "state", json_text_or_null(state_names[known->state]));
        json_add(object, "path", json_text_or_null(known->path));
        json_print(stdout, object);
        return;
    }
    struct table_row *row = table_add_row(table);
    row_set(row, 0, state_names[known->state]);
    row_set(row, 1, text);
    row_set(row, 2, known->path);
}

static void print_all(const key_ring *ring, bool json)
{
    struct table *table = json ? NULL : table_new();
    if (table != NULL) {
        table_add_column(table, "STATE", COLUMN_TEXT);
        table_add_column(table, "KEY", COLUMN_TEXT);
        table_add_column(table, "FILE", COLUMN_LONG_TEXT);
    }
    for (size_t i = 0; i < ring->count; i++) {
        print_key(&ring->keys[i], json, table);
    }
    if (table != NULL) {
        table_print(table);
    }
}

/* Prints what was changed, or only the public key. The key is printed in the form that other
 * commands accept. */
static void print_one(const kiln_public_key *key, key_state state, const char *path, bool json)
{
    owned char *file = must(strdup(path));
    const known_key known = {.key = *key, .state = state, .path = file};
    char text[KILN_PUBLIC_KEY_TEXT_SIZE];
    kiln_public_key_format(key, text);
    if (json) {
        print_key(&known, true, NULL);
    } else {
        puts(text);
    }
}

/* ---- commands ---- */

static int make_key(key_ring *ring, const char *name, bool json)
{
    known_path(ring->secret_folder);
    owned char *path = text_of("%s/%s", ring->secret_folder, name);
    kiln_public_key key;
    kiln_error error = {.struct_size = sizeof error};
    if (strchr(name, '/') == NULL) {
        make_folders(path, 0700);
    }
    const kiln_status status = kiln_secret_key_make(path, name, &key, &error);
    if (status == KILN_EXISTS) {
        complain("%s exists already, and was not changed", path);
        return EXIT_USAGE;
    }
    if (status == KILN_E_PARSE) {
        options_wrong("kiln key", "%s", error_text(&error, status));
    }
    if (status != KILN_OK) {
        fail(&error, status);
    }
    print_one(&key, KEY_OWN, path, json);
    complain("to sign with it, set KILN_SECRET_KEY_FILE=%s; on other machines: kiln key trust "
             "and the line above",
             path);
    return EXIT_OK;
}

static int show_keys(key_ring *ring, const char *name, bool json)
{
    key_ring_read(ring);
    if (name != NULL) {
        const known_key *known = key_ring_find(ring, name);
        print_one(&known->key, known->state, known->path, json);
        return EXIT_OK;
    }
    if (ring->count == 0) {
        complain("no key is known here; 'kiln key new NAME' makes one");
        return EXIT_NOTHING_FOUND;
    }
    print_all(ring, json);
    return EXIT_OK;
}

static int add_line(const key_ring *ring, bool is_system, const kiln_public_key *key,
                    key_state state, bool json)
{
    const char *path = known_path(ring->trusted_files[is_system ? 0 : 1]);
    kiln_error error = {.struct_size = sizeof error};
    if (is_system) {
        umask(S_IWGRP | S_IWOTH); /* all users must be able to read it */
    }
    make_folders(path, is_system ? 0755 : 0700);
    const kiln_status status = kiln_trusted_keys_add(path, key, state == KEY_REVOKED, &error);
    if (status != KILN_OK) {
        fail(&error, status);
    }
    print_one(key, state, path, json);
    return EXIT_OK;
}

static int trust_key(key_ring *ring, const char *text, bool is_system, bool json)
{
    kiln_public_key key;
    if (kiln_public_key_parse(text, &key) != KILN_OK) {
        options_wrong("kiln key", "'%s' is not a public key: NAME:KEY, as kiln key show prints it",
                      text);
    }
    key_ring_read(ring);
    if (key_ring_has_revoked(ring, &key)) {
        complain("%s is revoked: to trust it again, remove the line that revokes it", text);
        return EXIT_USAGE;
    }
    return add_line(ring, is_system, &key, KEY_TRUSTED, json);
}

static int revoke_key(key_ring *ring, const char *text, bool is_system, bool json)
{
    const kiln_public_key key = key_ring_resolve(ring, text);
    const int exit_code = add_line(ring, is_system, &key, KEY_REVOKED, json);
    char signer[KILN_PUBLIC_KEY_TEXT_SIZE];
    kiln_public_key_format(&key, signer);
    complain("copies of its entries in directories stay, since directories do not check "
             "signatures: kiln rm --signer %s removes them",
             signer);
    return exit_code;
}

static int run_action(key_ring *ring, const command_line *line, bool is_system)
{
    const char *action = line->operands[0];
    const char *operand = line->operand_count > 1 ? line->operands[1] : NULL;
    if (strcmp(action, "show") == 0) {
        return show_keys(ring, operand, line->json);
    }
    const bool is_new = strcmp(action, "new") == 0, is_trust = strcmp(action, "trust") == 0;
    if (!is_new && !is_trust && strcmp(action, "revoke") != 0) {
        options_wrong("kiln key", "expected new, show, trust or revoke, not '%s'", action);
    }
    if (operand == NULL) {
        options_wrong("kiln key", "'%s' needs a %s", action, is_new ? "name" : "key");
    }
    return is_new     ? make_key(ring, operand, line->json)
           : is_trust ? trust_key(ring, operand, is_system, line->json)
                      : revoke_key(ring, operand, is_system, line->json);
}

int cmd_key(int argc, char **argv)
{
    bool is_system = false;
    command_line line = {
        .usage = usage,
        .options = {{.name = "system", .flag = &is_system}},
        .operands_min = 1,
        .operands_max = 2,
    };
    options_read(&line, argc, argv);
    if (line.directory != NULL) {
        options_wrong(argv[0], "it opens no store: --dir has no meaning");
    }
    key_ring ring = key_ring_of_environment();
    const int exit_code = run_action(&ring, &line, is_system);
    key_ring_free(&ring);
    return exit_code;
}
