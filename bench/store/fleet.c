/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet_bench FOLDER SOCKET ROUNDS: measures gets of 10 KB, 100 KB and 1 MB from a Redis server
 * that listens on a socket of the file system. Prints a line for each measurement:
 *
 *     subject <tab> bytes of payload <tab> nanoseconds per operation
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <kiln/entry.h>
#include <kiln/store.h>

#define TOTAL_BYTES ((size_t)32 << 20)
#define MOST_ENTRIES 256u
#define STRETCHES 8u
#define PATH_SIZE 512
#define LOCATION_SIZE (4 * PATH_SIZE)

static size_t payload_size, count;
static kiln_key *keys[MOST_ENTRIES], *absent[MOST_ENTRIES];
static const char *folder, *socket_path;
static char key_file[PATH_SIZE];
static kiln_store *remote, *signed_remote, *local, *signed_local, *chain;
static int connection;
static unsigned char *buffer; /* holds an answer or a file */
static size_t buffer_size;

static void expect(int holds, const char *what)
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
    expect(kiln_key_builder_new(&builder) == KILN_OK &&
               kiln_key_builder_add_text(builder, "device", "a device of benches") == KILN_OK &&
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

static void put_all(kiln_store *store)
{
    unsigned char *payload = malloc(payload_size);
    expect(payload != NULL, "out of memory");
    for (size_t i = 0; i < count; i++) {
        kiln_entry *entry = NULL;
        fill(payload, i);
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = keys[i],
            .kind = KILN_ENTRY_PROGRAM,
            .provenance = {.struct_size = sizeof params.provenance, .name = "kernel"},
            .payload = {payload, payload_size},
        };
        expect(kiln_entry_new(&params, &entry) == KILN_OK, "no entry");
        expect(kiln_store_put(store, entry) == KILN_OK, "put");
        kiln_entry_release(&entry);
    }
    free(payload);
}

static kiln_store *open_store(const char *location, const char *key)
{
    const kiln_store_params params = {
        .struct_size = sizeof params, .max_bytes = KILN_UNLIMITED, .key_file = key};
    kiln_error error = {.struct_size = sizeof error};
    kiln_store *store = NULL;
    if (kiln_store_open(location, &params, &store, &error) != KILN_OK) {
        expect(0, error.text);
    }
    return store;
}

static void make_folder(const char *name, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/%s-%zu", folder, name, payload_size);
    expect(mkdir(path, 0700) == 0, path);
}

static void open_all(void)
{
    char plain[PATH_SIZE], with_key[PATH_SIZE], location[LOCATION_SIZE];
    count = TOTAL_BYTES / payload_size < MOST_ENTRIES ? TOTAL_BYTES / payload_size : MOST_ENTRIES;
    for (size_t i = 0; i < count; i++) {
        keys[i] = make_key(i);
        absent[i] = make_key(count + i);
    }
    make_folder("plain", plain);
    make_folder("signed", with_key);
    local = open_store(plain, NULL);
    signed_local = open_store(with_key, key_file);
    snprintf(location, sizeof location, "redis+unix://%s?trust=any", socket_path);
    remote = open_store(location, NULL);
    snprintf(location, sizeof location, "redis+unix://%s?key-file=%s", socket_path, key_file);
    signed_remote = open_store(location, NULL);
    snprintf(location, sizeof location, "%s|redis+unix://%s?trust=any", plain, socket_path);
    chain = open_store(location, NULL);
    put_all(local);
    put_all(signed_local);
    /* A store with trust=any reads signed entries, too, so this put serves both. */
    put_all(signed_remote);
}

static void close_all(void)
{
    kiln_store_close(&chain);
    kiln_store_close(&signed_remote);
    kiln_store_close(&remote);
    kiln_store_close(&signed_local);
    kiln_store_close(&local);
    for (size_t i = 0; i < count; i++) {
        kiln_key_release(&keys[i]);
        kiln_key_release(&absent[i]);
    }
}

/* ---- subjects ---- */

static void get_from(kiln_store *store, size_t index)
{
    kiln_entry *entry = NULL;
    expect(kiln_store_get(store, keys[index], &entry) == KILN_OK, "get");
    kiln_entry_release(&entry);
}

static void get(size_t index)
{
    get_from(remote, index);
}

static void get_signed(size_t index)
{
    get_from(signed_remote, index);
}

static void get_local(size_t index)
{
    get_from(local, index);
}

static void get_signed_local(size_t index)
{
    get_from(signed_local, index);
}

static void get_in_chain(size_t index)
{
    get_from(chain, index);
}

/* A get of a key that the server has just denied to have would not ask it again. */
static void look_for_absent(size_t index)
{
    expect(kiln_store_contains(remote, absent[index]) == KILN_MISS, "a look-up of an absent key");
}

static void format_digest(const kiln_key *key, char text[KILN_DIGEST_TEXT_SIZE])
{
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
}

static size_t receive(size_t used)
{
    const ssize_t got = recv(connection, buffer + used, buffer_size - used, 0);
    expect(got > 0, "the server closed the connection");
    return used + (size_t)got;
}

/* GET, and what the protocol needs to find the end of the answer. Returns the size of the value; -1
 * if there is none. */
static long ask(const kiln_key *key)
{
    char text[KILN_DIGEST_TEXT_SIZE], command[256];
    format_digest(key, text);
    const int length =
        snprintf(command, sizeof command, "*2\r\n$3\r\nGET\r\n$%zu\r\nkiln:v1:{%s}\r\n",
                 strlen(text) + strlen("kiln:v1:{}"), text);
    expect(send(connection, command, (size_t)length, MSG_NOSIGNAL) == length, "send");
    size_t used = receive(0);
    const unsigned char *end;
    while (!(end = memchr(buffer, '\n', used))) {
        used = receive(used);
    }
    expect(buffer[0] == '$', "no value");
    const long size = strtol((const char *)buffer + 1, NULL, 10);
    while (size >= 0 && used < (size_t)(end + 1 - buffer) + (size_t)size + 2) {
        used = receive(used);
    }
    return size;
}

static void get_bare(size_t index)
{
    expect(ask(keys[index]) > (long)payload_size, "a value is too short");
}

static void get_bare_absent(size_t index)
{
    expect(ask(absent[index]) < 0, "a value of an absent key");
}

/* The system calls alone, on the files of get_local. */
static void read_bare(size_t index)
{
    char text[KILN_DIGEST_TEXT_SIZE], path[2 * PATH_SIZE];
    struct stat stat;
    format_digest(keys[index], text);
    snprintf(path, sizeof path, "%s/plain-%zu/v1/%.2s/%s", folder, payload_size, text, text);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    expect(file >= 0 && fstat(file, &stat) == 0 && (size_t)stat.st_size <= buffer_size, path);
    expect(read(file, buffer, (size_t)stat.st_size) == stat.st_size, path);
    close(file);
}

static const struct {
    const char *name;
    void (*run)(size_t index);
} subjects[] = {
    {"bare GET", get_bare},
    {"get", get},
    {"get, signed", get_signed},
    {"bare absent", get_bare_absent},
    {"absent", look_for_absent},
    {"bare read", read_bare},
    {"local get", get_local},
    {"local get, signed", get_signed_local},
    {"local get in a chain", get_in_chain},
};

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Each measurement is short, so that some are undisturbed. */
static void measure_all(void)
{
    const size_t stretch = count / STRETCHES;
    for (size_t s = 0; s < sizeof subjects / sizeof subjects[0]; s++) {
        for (size_t first = 0; first + stretch <= count; first += stretch) {
            const double start = now_ns();
            for (size_t i = first; i < first + stretch; i++) {
                subjects[s].run(i);
            }
            printf("%s\t%zu\t%.0f\n", subjects[s].name, payload_size,
                   (now_ns() - start) / (double)stretch);
        }
    }
    fflush(stdout);
}

/* ---- the bench ---- */

static void make_key_file(void)
{
    static const unsigned char key[32] = "a key of benches";
    snprintf(key_file, sizeof key_file, "%s/key", folder);
    const int file = open(key_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    expect(file >= 0 && write(file, key, sizeof key) == (ssize_t)sizeof key, key_file);
    close(file);
}

static void connect_to_server(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    expect(connection >= 0 &&
               connect(connection, (const struct sockaddr *)&address, sizeof address) == 0,
           socket_path);
}

int main(int argument_count, char **arguments)
{
    static const size_t sizes[] = {10 << 10, 100 << 10, 1 << 20};
    if (argument_count != 4) {
        fprintf(stderr, "usage: fleet_bench FOLDER SOCKET ROUNDS\n");
        return 2;
    }
    folder = arguments[1];
    socket_path = arguments[2];
    buffer_size = 2 << 20;
    buffer = malloc(buffer_size);
    expect(buffer != NULL, "out of memory");
    make_key_file();
    connect_to_server();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        payload_size = sizes[i];
        open_all();
        for (int round = 0; round < atoi(arguments[3]); round++) {
            measure_all();
        }
        close_all();
    }
    close(connection);
    free(buffer);
    return 0;
}
