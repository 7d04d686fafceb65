/* SPDX-License-Identifier: Apache-2.0
 *
 * LMDB, by digest, without verification; nothing is flushed to disk.
 */
#include "subject.h"

#ifdef HAVE_LMDB

#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

static const bench_data *here;
static MDB_env *environment;
static MDB_txn *reading;
static MDB_dbi database;

static void expect(int result, const char *what)
{
    bench_expect(result == MDB_SUCCESS, what);
}

static void put_in(MDB_txn *writing, size_t index)
{
    kiln_digest digest = kiln_key_digest(here->keys[index]);
    const kiln_bytes bytes = kiln_entry_encoding(here->entries[index]);
    MDB_val key = {sizeof digest.bytes, digest.bytes};
    MDB_val value = {bytes.size, NULL};
    expect(mdb_put(writing, database, &key, &value, MDB_RESERVE), "LMDB: put");
    memcpy(value.mv_data, bytes.data, bytes.size);
}

static void open_lmdb(const bench_data *data)
{
    char path[BENCH_PATH_SIZE];
    MDB_txn *writing;
    here = data;
    bench_make_folder(data, "lmdb", path);
    expect(mdb_env_create(&environment), "LMDB");
    expect(mdb_env_set_mapsize(environment, (size_t)4 << 30), "LMDB: size");
    expect(mdb_env_open(environment, path, MDB_NOSYNC, 0600), "LMDB: open");
    expect(mdb_txn_begin(environment, NULL, 0, &writing), "LMDB: begin");
    expect(mdb_dbi_open(writing, NULL, 0, &database), "LMDB: open");
    for (size_t i = 0; i < data->count; i++) {
        put_in(writing, i);
    }
    expect(mdb_txn_commit(writing), "LMDB: commit");
    expect(mdb_txn_begin(environment, NULL, MDB_RDONLY, &reading), "LMDB: begin");
    mdb_txn_reset(reading);
}

static void close_lmdb(void)
{
    mdb_txn_abort(reading);
    mdb_env_close(environment);
}

static void run_get(size_t index)
{
    kiln_digest digest = kiln_key_digest(here->keys[index]);
    MDB_val key = {sizeof digest.bytes, digest.bytes};
    MDB_val value;
    expect(mdb_txn_renew(reading), "LMDB: renew");
    expect(mdb_get(reading, database, &key, &value), "LMDB: get");
    void *bytes = malloc(value.mv_size);
    bench_expect(bytes != NULL, "out of memory");
    memcpy(bytes, value.mv_data, value.mv_size);
    bench_use(bytes);
    mdb_txn_reset(reading);
    free(bytes);
}

static void run_put(size_t index)
{
    MDB_txn *writing;
    expect(mdb_txn_begin(environment, NULL, 0, &writing), "LMDB: begin");
    put_in(writing, index);
    expect(mdb_txn_commit(writing), "LMDB: commit");
}

const bench_subject lmdb_subjects[] = {
    {.name = "LMDB get", .open = open_lmdb, .run = run_get, .close = close_lmdb},
    {.name = "LMDB put", .run = run_put},
    {.name = NULL},
};

#else

const bench_subject lmdb_subjects[] = {{.name = NULL}};

#endif
