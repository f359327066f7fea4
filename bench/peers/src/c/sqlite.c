/* SQLite 3, through sqlite3.h: CREATE TABLE records (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID,
 * prepared statements.
 *
 * A single thread holds the file's locks throughout (locking_mode=EXCLUSIVE), which saves locking it anew for
 * every transaction; several threads have a connection each, and queue for the one writer on a mutex of ours,
 * which is kinder than SQLite's sleeping busy handler. In Data Store a run of writes is one transaction, and
 * so is one of reads; else every statement commits by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include "peer.h"

struct store {
    struct peer_options options;
    char path[4096];
    pthread_mutex_t writer;
    sqlite3 *keeper;  /* keeps the write-ahead log alive between sessions; several threads only */
    sqlite3 *single;  /* the connection of all sessions when there is only one at a time */
};

struct session {
    struct store *store;
    sqlite3 *db;
    sqlite3_stmt *insert, *update, *get, *remove, *range;
    int in_batch;  /* it is the writer for as long as that lasts */
    char failure[PEER_TEXT_BYTES];
};

#include "loops.h"

static const char *why(struct session *session, int code) {
    if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW) return NULL;
    snprintf(session->failure, sizeof session->failure, "%s", sqlite3_errmsg(session->db));
    return session->failure;
}

static int refuse(char *error, const char *what, sqlite3 *db) {
    snprintf(error, PEER_TEXT_BYTES, "%s: %s", what, sqlite3_errmsg(db));
    return -1;
}

static const char *execute(struct session *session, const char *sql) {
    return why(session, sqlite3_exec(session->db, sql, NULL, NULL, NULL));
}

static int one_transaction(const struct session *session, const struct peer_job *job) {
    return session->store->options.mode == MODE_DS && job->kind != KIND_LOAD;
}

static const char *peer_begin(struct session *session, const struct peer_job *job) {
    return one_transaction(session, job) ? execute(session, "BEGIN") : NULL;
}

static const char *peer_end(struct session *session, const struct peer_job *job) {
    return one_transaction(session, job) ? execute(session, "COMMIT") : NULL;
}

/* Runs a statement that changes a record, which is there if it `exists`. */
static const char *change(struct session *session, sqlite3_stmt *statement, int exists) {
    struct store *store = session->store;
    int queues = store->options.threads > 1 && !session->in_batch;
    if (queues) pthread_mutex_lock(&store->writer);
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    if (queues) pthread_mutex_unlock(&store->writer);
    if (code == SQLITE_DONE && exists && sqlite3_changes(session->db) != 1) return "not found";
    return why(session, code);
}

static const char *peer_put(struct session *session, struct bytes key, struct bytes value, int exists) {
    sqlite3_stmt *put = exists ? session->update : session->insert;
    sqlite3_bind_blob(put, 1, key.at, (int)key.length, SQLITE_STATIC);
    sqlite3_bind_blob(put, 2, value.at, (int)value.length, SQLITE_STATIC);
    return change(session, put, exists);
}

static const char *peer_remove(struct session *session, struct bytes key) {
    sqlite3_bind_blob(session->remove, 1, key.at, (int)key.length, SQLITE_STATIC);
    return change(session, session->remove, 1);
}

static const char *peer_get(struct session *session, struct bytes key, const uint8_t **value,
                            size_t *length) {
    sqlite3_bind_blob(session->get, 1, key.at, (int)key.length, SQLITE_STATIC);
    int code = sqlite3_step(session->get);
    if (code == SQLITE_ROW) {
        *value = sqlite3_column_blob(session->get, 0);
        *length = (size_t)sqlite3_column_bytes(session->get, 0);
        return NULL;
    }
    const char *failed = code == SQLITE_DONE ? "not found" : why(session, code);
    sqlite3_reset(session->get);
    return failed;
}

static void peer_release(struct session *session) { sqlite3_reset(session->get); }

static const char *peer_scan(struct session *session, struct scan *scan) {
    sqlite3_stmt *all;
    int code = sqlite3_prepare_v2(session->db, "SELECT key, value FROM records", -1, &all, NULL);
    if (code != SQLITE_OK) return why(session, code);
    while ((code = sqlite3_step(all)) == SQLITE_ROW) {
        const uint8_t *key = sqlite3_column_blob(all, 0), *value = sqlite3_column_blob(all, 1);
        scan_visit(scan, key, (size_t)sqlite3_column_bytes(all, 0), value,
                   (size_t)sqlite3_column_bytes(all, 1));
    }
    const char *failed = why(session, code);
    sqlite3_finalize(all);
    return failed;
}

static const char *peer_range(struct session *session, struct bytes from, uint32_t count,
                              struct range *range) {
    sqlite3_stmt *some = session->range;
    int code;
    sqlite3_bind_blob(some, 1, from.at, (int)from.length, SQLITE_STATIC);
    sqlite3_bind_int64(some, 2, count);
    while ((code = sqlite3_step(some)) == SQLITE_ROW) {
        const uint8_t *key = sqlite3_column_blob(some, 0), *value = sqlite3_column_blob(some, 1);
        range_visit(range, key, (size_t)sqlite3_column_bytes(some, 0), value,
                    (size_t)sqlite3_column_bytes(some, 1));
    }
    const char *failed = why(session, code);
    sqlite3_reset(some);
    return failed;
}

static const char *change_record(struct session *session, struct bytes key, struct change *change) {
    const uint8_t *found;
    size_t length;
    const char *failed = peer_get(session, key, &found, &length);
    if (failed != NULL) return failed;
    struct bytes value = change_value(change, found, length);
    peer_release(session);
    sqlite3_bind_blob(session->update, 1, key.at, (int)key.length, SQLITE_STATIC);
    sqlite3_bind_blob(session->update, 2, value.at, (int)value.length, SQLITE_STATIC);
    int code = sqlite3_step(session->update);
    sqlite3_reset(session->update);
    return why(session, code);
}

static const char *peer_modify(struct session *session, struct bytes key, struct change *change) {
    const char *failed = peer_batch(session, 1);
    if (failed == NULL) failed = change_record(session, key, change);
    /* What has failed has changed nothing: either way the transaction ends, and lets the next one in. */
    const char *ended = peer_batch(session, 0);
    return failed != NULL ? failed : ended;
}

static const char *peer_batch(struct session *session, int open) {
    struct store *store = session->store;
    if (open && store->options.threads > 1) pthread_mutex_lock(&store->writer);
    const char *failed = execute(session, open ? "BEGIN IMMEDIATE" : "COMMIT");
    session->in_batch = open;
    if (!open && store->options.threads > 1) pthread_mutex_unlock(&store->writer);
    return failed;
}

static const char *version(void) { return sqlite3_libversion(); }

static const char *meaning(int mode) {
    switch (mode) {
        case MODE_DS: return "journal_mode=OFF, synchronous=OFF; a run is one transaction";
        case MODE_TDS: return "a SELECT is a read transaction; writes as NoSync";
        case MODE_MEMORY: return "journal_mode=MEMORY, synchronous=OFF: the rollback journal is in memory";
        case MODE_NO_SYNC: return "as WriteNoSync: the log is not buffered";
        case MODE_WRITE_NO_SYNC: return "journal_mode=WAL, synchronous=OFF: commits are written to the OS";
        case MODE_BACKGROUND:
            return "journal_mode=WAL, synchronous=OFF; fdatasync of the log every 50 ms, "
                   "wal_checkpoint(PASSIVE) every 4 s";
        case MODE_UNLOGGED: return "as WriteNoSync: a journal is what lets its connections work side by side";
        case MODE_SYNC: return "journal_mode=WAL, synchronous=FULL";
    }
    return NULL;
}

static sqlite3 *connect_to(struct store *store, char *error) {
    struct peer_options *options = &store->options;
    const char *journal = "WAL";
    char pragmas[512];
    sqlite3 *db = NULL;
    if (options->mode == MODE_DS) journal = "OFF";
    if (options->mode == MODE_MEMORY) journal = "MEMORY";
    snprintf(pragmas, sizeof pragmas,
             "PRAGMA page_size=%u; PRAGMA locking_mode=%s; PRAGMA journal_mode=%s; PRAGMA synchronous=%s; "
             "PRAGMA cache_size=-%llu; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=16384; "
             "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID",
             options->page_size ? options->page_size : 4096, options->threads > 1 ? "NORMAL" : "EXCLUSIVE",
             journal, options->mode == MODE_SYNC ? "FULL" : "OFF",
             (unsigned long long)(options->cache_bytes >> 10) / options->threads);
    int code = sqlite3_open_v2(store->path, &db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) code = sqlite3_busy_timeout(db, 60000);
    if (code == SQLITE_OK) code = sqlite3_exec(db, pragmas, NULL, NULL, NULL);
    if (code == SQLITE_OK) return db;
    refuse(error, "open", db);
    sqlite3_close(db);
    return NULL;
}

static void *open_store(const struct peer_options *options, char *error) {
    struct store *store = calloc(1, sizeof *store);
    store->options = *options;
    store->options.dir = NULL;
    snprintf(store->path, sizeof store->path, "%s/records.sqlite", options->dir);
    pthread_mutex_init(&store->writer, NULL);
    /* Settings of the process, before its first connection: no lock around a count of the memory in use. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite3 *db = connect_to(store, error);
    if (db == NULL) {
        free(store);
        return NULL;
    }
    if (options->threads > 1) store->keeper = db;
    else store->single = db;
    return store;
}

static void end_session(void *of) {
    struct session *session = of;
    sqlite3_finalize(session->insert);
    sqlite3_finalize(session->update);
    sqlite3_finalize(session->get);
    sqlite3_finalize(session->remove);
    sqlite3_finalize(session->range);
    if (session->db != session->store->single) sqlite3_close(session->db);
    free(session);
}

static void *new_session(void *of, char *error) {
    static const char INSERT[] = "INSERT INTO records (key, value) VALUES (?1, ?2)";
    static const char UPDATE[] = "UPDATE records SET value = ?2 WHERE key = ?1";
    static const char REMOVE[] = "DELETE FROM records WHERE key = ?1";
    static const char RANGE[] = "SELECT key, value FROM records WHERE key >= ?1 ORDER BY key LIMIT ?2";
    static const char GET[] = "SELECT value FROM records WHERE key = ?1";
    struct session *session = calloc(1, sizeof *session);
    session->store = of;
    session->db = session->store->single != NULL ? session->store->single : connect_to(of, error);
    if (session->db == NULL) {
        free(session);
        return NULL;
    }
    int code = sqlite3_prepare_v3(session->db, INSERT, -1, SQLITE_PREPARE_PERSISTENT, &session->insert, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v3(session->db, UPDATE, -1, SQLITE_PREPARE_PERSISTENT, &session->update, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v3(session->db, GET, -1, SQLITE_PREPARE_PERSISTENT, &session->get, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v3(session->db, REMOVE, -1, SQLITE_PREPARE_PERSISTENT, &session->remove, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v3(session->db, RANGE, -1, SQLITE_PREPARE_PERSISTENT, &session->range, NULL);
    if (code == SQLITE_OK) return session;
    refuse(error, "prepare", session->db);
    end_session(session);
    return NULL;
}

static int settle(void *of, char *error) {
    struct store *store = of;
    sqlite3 *db = store->single != NULL ? store->single : store->keeper;
    if (store->options.mode == MODE_DS || store->options.mode == MODE_MEMORY) return 0;
    int code = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return code == SQLITE_OK ? 0 : refuse(error, "checkpoint", db);
}

/* The log's pages are the file's whoever wrote them, so they are flushed by their name; SQLite holds no lock
 * on it. */
static int upkeep(void *of, int checkpoint, char *error) {
    struct store *store = of;
    char log[sizeof store->path + 8];
    if (store->options.mode == MODE_MEMORY) return 0;
    if (checkpoint) {
        int code = sqlite3_wal_checkpoint_v2(store->keeper, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        return code == SQLITE_OK || code == SQLITE_BUSY ? 0 : refuse(error, "checkpoint", store->keeper);
    }
    snprintf(log, sizeof log, "%s-wal", store->path);
    int file = open(log, O_WRONLY | O_CLOEXEC), failed = file < 0 || fdatasync(file) != 0;
    int number = errno;
    if (file >= 0) close(file);
    if (!failed) return 0;
    snprintf(error, PEER_TEXT_BYTES, "flush: %s", strerror(number));
    return -1;
}

static int close_store(void *of, char *error) {
    struct store *store = of;
    int code = settle(store, error);
    sqlite3_close(store->single != NULL ? store->single : store->keeper);
    pthread_mutex_destroy(&store->writer);
    free(store);
    return code;
}

const struct peer peer_sqlite = {version, meaning, open_store, new_session,
                                 loops_run, end_session, settle, upkeep, close_store};
