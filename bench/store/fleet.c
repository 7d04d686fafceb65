/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet_bench KIND FOLDER LOCATION WHERE LIBRARY PROCESS ROUNDS: measures gets of 10 KB, 100 KB and
 * 1 MB from a server.
 *
 *     KIND      redis, http or s3
 *     LOCATION  the server's URL for Kiln, to which options can be appended
 *     WHERE     the server for the peer (fleet.h)
 *     LIBRARY   the path of libkiln_remote
 *     PROCESS   the server's, whose processor time is measured; 0: none
 *
 * Prints a line for each measurement:
 *
 *     subject <tab> bytes of payload <tab> nanoseconds per entry <tab> of the server's processor
 */
#include "fleet.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <kiln/entry.h>
#include <kiln/signature.h>
#include <kiln/store.h>

#include "entry/entry.h"
#include "key/hash.h"
#include "store/remote/connector.h"
#include "store/remote/loader.h"
#include "store/signing/trusted_keys.h"

#define TOTAL_BYTES ((size_t)32 << 20)
#define MOST_ENTRIES 256u
#define MOST_ENTRIES_ON_S3 32u /* the server is slow */
#define PARTS 8u
#define PATH_SIZE 512
#define LOCATION_SIZE (4 * PATH_SIZE)
#define BATCH_NS UINT64_C(3000000000)
#define STATEMENT_SIZE 256u /* of what a signature covers */

static const fleet_peer *peer;
static const char *folder, *base_location, *server_process;
static size_t payload_size, count;
static kiln_key *keys[MOST_ENTRIES], *absent[MOST_ENTRIES];
static kiln_entry *entries[MOST_ENTRIES];
static char key_file[PATH_SIZE], secret_key_file[PATH_SIZE], trusted_keys_file[PATH_SIZE];
static kiln_store *remote, *remote_with_mac, *remote_signed, *local, *chain;
static kiln_lease *taken_lease;  /* for which others wait; NULL: not taken yet */
static kilni_remote *connection; /* for batches, which stores do not offer yet */
static const kilni_connector *connector;
static kilni_trusted_keys trusted;

void fleet_expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fleet_bench: %s\n", what);
        exit(1);
    }
}

/* ---- entries ---- */

static kiln_key *make_key(size_t number)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    fleet_expect(kiln_key_builder_new(&builder) == KILN_OK &&
                     kiln_key_builder_add_text(builder, "device", "a device of benches") ==
                         KILN_OK &&
                     kiln_key_builder_add_number(builder, "size", payload_size) == KILN_OK &&
                     kiln_key_builder_add_number(builder, "number", number) == KILN_OK &&
                     kiln_key_builder_finish(builder, &key) == KILN_OK,
                 "no key");
    kiln_key_builder_free(&builder);
    return key;
}

/* Bytes that do not compress and differ from entry to entry. */
static void fill(unsigned char *bytes, uint64_t state)
{
    for (size_t i = 0; i < payload_size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)(state >> 56);
    }
}

static void make_entries(void)
{
    unsigned char *payload = malloc(payload_size);
    fleet_expect(payload != NULL, "out of memory");
    const size_t most = peer == &fleet_s3 ? MOST_ENTRIES_ON_S3 : MOST_ENTRIES;
    count = TOTAL_BYTES / payload_size < most ? TOTAL_BYTES / payload_size : most;
    for (size_t i = 0; i < count; i++) {
        keys[i] = make_key(i);
        absent[i] = make_key(count + i);
        fill(payload, i);
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = keys[i],
            .kind = KILN_ENTRY_PROGRAM,
            .provenance = {.struct_size = sizeof params.provenance, .name = "kernel"},
            .payload = {payload, payload_size},
        };
        fleet_expect(kiln_entry_new(&params, &entries[i]) == KILN_OK, "no entry");
    }
    free(payload);
}

static void free_entries(void)
{
    for (size_t i = 0; i < count; i++) {
        kiln_key_release(&keys[i]);
        kiln_key_release(&absent[i]);
        kiln_entry_release(&entries[i]);
    }
}

/* ---- keys of signers ---- */

static void make_signing_keys(void)
{
    static const unsigned char key[32] = "a key of benches";
    kiln_public_key public_key;
    snprintf(key_file, sizeof key_file, "%s/key", folder);
    snprintf(secret_key_file, sizeof secret_key_file, "%s/secret", folder);
    snprintf(trusted_keys_file, sizeof trusted_keys_file, "%s/trusted-keys", folder);
    const int file = open(key_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    fleet_expect(file >= 0 && write(file, key, sizeof key) == (ssize_t)sizeof key, key_file);
    close(file);
    fleet_expect(kiln_secret_key_make(secret_key_file, "bench", &public_key, NULL) == KILN_OK &&
                     kiln_trusted_keys_add(trusted_keys_file, &public_key, false, NULL) ==
                         KILN_OK &&
                     kilni_trusted_keys_append(&trusted, &public_key, false) == KILN_OK,
                 "no key to sign with");
}

/* ---- stores ---- */

/* @has_trusted_keys  whether entries with a signature of the trusted key are believed */
static kiln_store *open_store(const char *location, bool has_trusted_keys)
{
    const kiln_store_credentials credentials = {
        .struct_size = sizeof credentials,
        .trusted_key_files = {has_trusted_keys ? trusted_keys_file : NULL},
        .aws_access_key_id = getenv("AWS_ACCESS_KEY_ID"),
        .aws_secret_access_key = getenv("AWS_SECRET_ACCESS_KEY"),
    };
    const kiln_store_params params = {
        .struct_size = sizeof params, .max_bytes = KILN_UNLIMITED, .credentials = &credentials};
    kiln_error error = {.struct_size = sizeof error};
    kiln_store *store = NULL;
    if (kiln_store_open(location, &params, &store, &error) != KILN_OK) {
        fleet_expect(0, error.text);
    }
    return store;
}

static kiln_store *open_remote(const char *options, bool has_trusted_keys)
{
    char location[LOCATION_SIZE];
    snprintf(location, sizeof location, "%s%s", base_location, options);
    return open_store(location, has_trusted_keys);
}

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Returns how long the server has run on a processor; 0 if it is not known. */
static double server_ns(void)
{
    char path[PATH_SIZE];
    double ran_ns = 0;
    snprintf(path, sizeof path, "/proc/%s/schedstat", server_process);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%lf", &ran_ns) != 1) {
            ran_ns = 0;
        }
        fclose(file);
    }
    return ran_ns;
}

static void print(const char *subject, double taken_ns, double served_ns, size_t times)
{
    printf("%s\t%zu\t%.0f\t%.0f\n", subject, payload_size, taken_ns / (double)times,
           served_ns / (double)times);
}

/* Puts all entries with a MAC and a signature. The store that believes everything reads them, too.
 */
static void put_all(void)
{
    char options[LOCATION_SIZE];
    snprintf(options, sizeof options, "key-file=%s&secret-key-file=%s", key_file, secret_key_file);
    kiln_store *writer = open_remote(options, false);
    const size_t size = count / PARTS;
    for (size_t first = 0; first + size <= count; first += size) {
        const double before_ns = server_ns(), start_ns = now_ns();
        for (size_t i = first; i < first + size; i++) {
            fleet_expect(kiln_store_put(writer, entries[i]) == KILN_OK, "put");
        }
        const double end_ns = now_ns();
        print("put", end_ns - start_ns, server_ns() - before_ns, size);
    }
    kiln_store_close(&writer);
}

static void open_all(void)
{
    char path[PATH_SIZE], options[LOCATION_SIZE], location[LOCATION_SIZE];
    put_all();
    remote = open_remote("trust=any", false);
    snprintf(options, sizeof options, "key-file=%s", key_file);
    remote_with_mac = open_remote(options, false);
    remote_signed = open_remote("readonly=1", true);
    snprintf(path, sizeof path, "%s/local-%zu", folder, payload_size);
    local = open_store(path, false);
    snprintf(location, sizeof location, "%s|%strust=any", path, base_location);
    chain = open_store(location, false);
    for (size_t i = 0; i < count; i++) {
        fleet_expect(kiln_store_put(local, entries[i]) == KILN_OK, "put");
    }
}

static void close_all(void)
{
    kiln_lease_release(&taken_lease);
    kiln_store_close(&chain);
    kiln_store_close(&local);
    kiln_store_close(&remote_signed);
    kiln_store_close(&remote_with_mac);
    kiln_store_close(&remote);
}

/* ---- subjects: servers ---- */

static void get_from(kiln_store *store, size_t index)
{
    kiln_entry *entry = NULL;
    fleet_expect(kiln_store_get(store, keys[index], &entry) == KILN_OK, "get");
    kiln_entry_release(&entry);
}

static void get(size_t index)
{
    get_from(remote, index);
}

static void get_with_mac(size_t index)
{
    get_from(remote_with_mac, index);
}

static void get_signed(size_t index)
{
    get_from(remote_signed, index);
}

/* A get of a key that the server has just denied to have would not ask it again. */
static void look_for_absent(size_t index)
{
    fleet_expect(kiln_store_contains(remote, absent[index]) == KILN_MISS, "an absent key");
}

static void take_and_release_lease(size_t index)
{
    kiln_lease *lease = NULL;
    fleet_expect(kiln_store_lease(remote, absent[index], 0, &lease) == KILN_OK, "lease");
    kiln_lease_release(&lease);
}

/* What each machine that waits for a build does again and again. */
static void ask_for_taken_lease(size_t index)
{
    kiln_lease *none = NULL;
    (void)index;
    if (!taken_lease) {
        fleet_expect(kiln_store_lease(remote_with_mac, keys[0], 0, &taken_lease) == KILN_OK,
                     "lease");
    }
    fleet_expect(kiln_store_lease(remote, keys[0], 0, &none) == KILN_BUSY, "a taken lease");
}

static void format_digest(const kiln_key *key, char text[KILN_DIGEST_TEXT_SIZE])
{
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
}

static void name_of(const kiln_key *key, char name[FLEET_NAME_SIZE])
{
    char text[KILN_DIGEST_TEXT_SIZE];
    const bool is_redis = peer == &fleet_redis;
    format_digest(key, text);
    snprintf(name, FLEET_NAME_SIZE, "%s%s%s", is_redis ? "kiln:v1:{" : "kiln-v1/", text,
             is_redis ? "}" : "");
}

/* Returns the value. */
static kiln_bytes ask_peer(size_t index)
{
    char name[FLEET_NAME_SIZE];
    const unsigned char *value;
    name_of(keys[index], name);
    const long size = peer->get(name, &value);
    fleet_expect(size > (long)payload_size, "a value is too short");
    return (kiln_bytes){value, (size_t)size};
}

static void get_bare(size_t index)
{
    ask_peer(index);
}

static void get_bare_absent(size_t index)
{
    char name[FLEET_NAME_SIZE];
    const unsigned char *value;
    name_of(absent[index], name);
    fleet_expect(peer->get(name, &value) < 0, "a value of an absent key");
}

/* ---- subjects: the checks that no reader can leave out, on bytes that have just arrived ---- */

static void check_hash(kiln_bytes value)
{
    static volatile unsigned char kept;
    kept = kilni_hash(value.data, value.size).bytes[0];
    (void)kept;
}

static void check_cryptographic_hash(kiln_bytes value)
{
    static volatile unsigned char kept;
    unsigned char hash[32];
    crypto_generichash(hash, sizeof hash, value.data, value.size, NULL, 0);
    kept = hash[0];
    (void)kept;
}

static void get_bare_with_hash(size_t index)
{
    check_hash(ask_peer(index));
}

static void get_bare_with_mac(size_t index)
{
    const kiln_bytes value = ask_peer(index);
    check_hash(value);
    check_cryptographic_hash(value);
}

static void get_bare_with_signature(size_t index)
{
    static const unsigned char statement[STATEMENT_SIZE];
    static unsigned char public_key[crypto_sign_PUBLICKEYBYTES], signature[crypto_sign_BYTES];
    static bool is_made;
    if (!is_made) {
        unsigned char secret_key[crypto_sign_SECRETKEYBYTES];
        crypto_sign_keypair(public_key, secret_key);
        crypto_sign_detached(signature, NULL, statement, sizeof statement, secret_key);
        is_made = true;
    }
    get_bare_with_mac(index);
    fleet_expect(crypto_sign_verify_detached(signature, statement, sizeof statement, public_key) ==
                     0,
                 "a signature");
}

/* What Kiln does with a signed value, on the thread that got it. */
static void get_bare_and_adopt(size_t index)
{
    const kilni_entry_trust trust = {.keys = &trusted, .now_s = (int64_t)time(NULL)};
    const kiln_bytes value = ask_peer(index);
    kiln_entry *entry = NULL;
    void *copy = malloc(value.size);
    fleet_expect(copy != NULL, "out of memory");
    memcpy(copy, value.data, value.size);
    fleet_expect(kilni_entry_adopt_trusted(copy, value.size, &trust, &entry) == KILN_OK &&
                     kiln_key_equals(kiln_entry_key(entry), keys[index]),
                 "an entry");
    kiln_entry_release(&entry);
}

/* ---- subjects: batches ---- */

static void get_bare_batch(size_t index)
{
    char names[FLEET_BATCH][FLEET_NAME_SIZE];
    void *values[FLEET_BATCH];
    for (size_t i = 0; i < FLEET_BATCH; i++) {
        name_of(keys[index + i], names[i]);
    }
    fleet_expect(peer->get_many(names, values) > FLEET_BATCH * payload_size,
                 "values are too short");
    for (size_t i = 0; i < FLEET_BATCH; i++) {
        free(values[i]);
    }
}

/* Makes entries from the answers as a store does.
 *
 * @keys_of_signers  NULL: no signatures are checked */
static void get_batch_by(size_t index, const kilni_trusted_keys *keys_of_signers)
{
    const kilni_entry_trust trust = {.keys = keys_of_signers, .now_s = (int64_t)time(NULL)};
    char names[FLEET_BATCH][FLEET_NAME_SIZE];
    kilni_remote_question questions[FLEET_BATCH] = {0};
    for (size_t i = 0; i < FLEET_BATCH; i++) {
        name_of(keys[index + i], names[i]);
        questions[i].name = names[i];
        questions[i].max_bytes = TOTAL_BYTES / FLEET_BATCH;
    }
    connector->ask_many(connection, questions, FLEET_BATCH, (uint64_t)now_ns() + BATCH_NS);
    for (size_t i = 0; i < FLEET_BATCH; i++) {
        kiln_entry *entry = NULL;
        const kilni_remote_bytes bytes = questions[i].bytes;
        const kiln_digest *hash = bytes.is_hashed ? &bytes.hash : NULL;
        fleet_expect(questions[i].status == KILN_OK &&
                         (keys_of_signers ? kilni_entry_adopt_trusted_hashed(bytes.data, bytes.size,
                                                                             hash, &trust, &entry)
                                          : kilni_entry_adopt_hashed(bytes.data, bytes.size, hash,
                                                                     NULL, &entry)) == KILN_OK &&
                         kiln_key_equals(kiln_entry_key(entry), keys[index + i]),
                     "an entry of a batch");
        kiln_entry_release(&entry);
    }
}

static void get_batch(size_t index)
{
    get_batch_by(index, NULL);
}

static void get_batch_signed(size_t index)
{
    get_batch_by(index, &trusted);
}

/* ---- subjects: the local store ---- */

static void get_local(size_t index)
{
    get_from(local, index);
}

static void get_in_chain(size_t index)
{
    get_from(chain, index);
}

/* ---- measuring ---- */

enum { ALWAYS, ON_REDIS };

static const struct {
    const char *name;
    void (*run)(size_t index);
    int needs;
    size_t entries; /* of one run */
} subjects[] = {
    {"bare GET", get_bare, ALWAYS, 1},
    {"bare GET and hash", get_bare_with_hash, ALWAYS, 1},
    {"bare GET and MAC", get_bare_with_mac, ALWAYS, 1},
    {"bare GET and signature", get_bare_with_signature, ALWAYS, 1},
    {"bare GET and entry", get_bare_and_adopt, ALWAYS, 1},
    {"get", get, ALWAYS, 1},
    {"get, MAC", get_with_mac, ALWAYS, 1},
    {"get, signed", get_signed, ALWAYS, 1},
    {"bare absent", get_bare_absent, ALWAYS, 1},
    {"absent", look_for_absent, ALWAYS, 1},
    {"bare batch", get_bare_batch, ON_REDIS, FLEET_BATCH},
    {"batch", get_batch, ON_REDIS, FLEET_BATCH},
    {"batch, signed", get_batch_signed, ON_REDIS, FLEET_BATCH},
    {"lease", take_and_release_lease, ON_REDIS, 1},
    {"lease that is taken", ask_for_taken_lease, ON_REDIS, 1},
    {"local get", get_local, ALWAYS, 1},
    {"local get in a chain", get_in_chain, ALWAYS, 1},
};

/* Measures a subject on the part of the entries with this number, if there are so many parts. */
static void measure(size_t subject, size_t part)
{
    const size_t at_once = subjects[subject].entries;
    const size_t size = count / PARTS < at_once ? at_once : count / PARTS;
    const size_t first = part * size;
    if (first + size > count) {
        return;
    }
    const double before_ns = server_ns(), start_ns = now_ns();
    for (size_t i = first; i < first + size; i += at_once) {
        subjects[subject].run(i);
    }
    const double end_ns = now_ns();
    print(subjects[subject].name, end_ns - start_ns, server_ns() - before_ns, size);
}

/* Takes all subjects in turns, so that a change of the machine's speed affects all of them. */
static void measure_all(void)
{
    for (size_t part = 0; part < PARTS; part++) {
        for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
            if (subjects[i].needs == ALWAYS || peer == &fleet_redis) {
                measure(i, part);
            }
        }
    }
    fflush(stdout);
}

/* ---- the bench ---- */

static const fleet_peer *find_peer(const char *kind)
{
    return strcmp(kind, "redis") == 0  ? &fleet_redis
           : strcmp(kind, "http") == 0 ? &fleet_http
                                       : &fleet_s3;
}

/* @where  HOST:PORT */
static void open_connection(const char *where)
{
    kilni_remote_server server = {0};
    unsigned port = 0;
    fleet_expect(sscanf(where, "%255[^:]:%u", server.host, &port) == 2, where);
    server.port = (uint16_t)port;
    fleet_expect(kilni_remote_load(KILNI_REDIS_CONNECTOR, &connector, NULL) == KILN_OK &&
                     connector->open(&server, &connection, NULL) == KILN_OK,
                 "no connection");
}

int main(int argument_count, char **arguments)
{
    static const size_t sizes[] = {10 << 10, 100 << 10, 1 << 20};
    if (argument_count != 8) {
        fprintf(stderr, "usage: fleet_bench KIND FOLDER LOCATION WHERE LIBRARY PROCESS ROUNDS\n");
        return 2;
    }
    peer = find_peer(arguments[1]);
    folder = arguments[2];
    base_location = arguments[3];
    server_process = arguments[6];
    kilni_remote_set_library(arguments[5]);
    make_signing_keys();
    peer->connect(arguments[4]);
    if (peer == &fleet_redis) {
        open_connection(arguments[4]);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        payload_size = sizes[i];
        make_entries();
        open_all();
        for (int round = 0; round < atoi(arguments[7]); round++) {
            measure_all();
        }
        close_all();
        free_entries();
    }
    if (peer == &fleet_redis) {
        connector->close(connection);
    }
    kilni_trusted_keys_done(&trusted);
    peer->disconnect();
    return 0;
}
