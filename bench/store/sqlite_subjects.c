/* SPDX-License-Identifier: Apache-2.0
 *
 * SQLite, by digest, without verification; nothing is flushed to disk.
 */
#include "subject.h"

#ifdef HAVE_SQLITE

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const bench_data *here;
static sqlite3 *database;
static sqlite3_stmt *selection, *insertion;

static void run_sql(const char *text)
{
    bench_expect(sqlite3_exec(database, text, NULL, NULL, NULL) == SQLITE_OK, text);
}

static sqlite3_stmt *prepare(const char *text)
{
    sqlite3_stmt *statement = NULL;
    bench_expect(sqlite3_prepare_v2(database, text, -1, &statement, NULL) == SQLITE_OK, text);
    return statement;
}

static void run_put(size_t index)
{
    const kiln_digest digest = kiln_key_digest(here->keys[index]);
    const kiln_bytes bytes = kiln_entry_encoding(here->entries[index]);
    sqlite3_bind_blob(insertion, 1, digest.bytes, sizeof digest.bytes, SQLITE_TRANSIENT);
    sqlite3_bind_blob(insertion, 2, bytes.data, (int)bytes.size, SQLITE_STATIC);
    bench_expect(sqlite3_step(insertion) == SQLITE_DONE, "SQLite: insert");
    sqlite3_reset(insertion);
}

static void open_sqlite(const bench_data *data)
{
    char folder[BENCH_PATH_SIZE];
    char path[BENCH_PATH_SIZE + 16];
    here = data;
    bench_make_folder(data, "sqlite", folder);
    snprintf(path, sizeof path, "%s/database", folder);
    bench_expect(sqlite3_open(path, &database) == SQLITE_OK, "SQLite: open");
    run_sql("PRAGMA journal_mode = WAL");
    run_sql("PRAGMA synchronous = OFF");
    run_sql("CREATE TABLE entries (digest BLOB PRIMARY KEY, bytes BLOB) WITHOUT ROWID");
    selection = prepare("SELECT bytes FROM entries WHERE digest = ?");
    insertion = prepare("INSERT OR REPLACE INTO entries VALUES (?, ?)");
    run_sql("BEGIN");
    for (size_t i = 0; i < data->count; i++) {
        run_put(i);
    }
    run_sql("COMMIT");
    run_sql("PRAGMA wal_checkpoint(TRUNCATE)");
}

static void close_sqlite(void)
{
    sqlite3_finalize(selection);
    sqlite3_finalize(insertion);
    sqlite3_close(database);
}

static void run_get(size_t index)
{
    const kiln_digest digest = kiln_key_digest(here->keys[index]);
    sqlite3_bind_blob(selection, 1, digest.bytes, sizeof digest.bytes, SQLITE_STATIC);
    bench_expect(sqlite3_step(selection) == SQLITE_ROW, "SQLite: select");
    const size_t size = (size_t)sqlite3_column_bytes(selection, 0);
    void *bytes = malloc(size);
    bench_expect(bytes != NULL, "out of memory");
    memcpy(bytes, sqlite3_column_blob(selection, 0), size);
    bench_use(bytes);
    sqlite3_reset(selection);
    free(bytes);
}

const bench_subject sqlite_subjects[] = {
    {.name = "SQLite get", .open = open_sqlite, .run = run_get, .close = close_sqlite},
    {.name = "SQLite put", .run = run_put},
    {.name = NULL},
};

#else

const bench_subject sqlite_subjects[] = {{.name = NULL}};

#endif
