/* WiredTiger, through wiredtiger.h: a row-store table with raw byte keys and values.
 *
 * One session and one cursor a thread. A put outside of a transaction is one of its own; whether and how its
 * commit reaches the log is the connection's `transaction_sync`. Without a log (DS, Memory) what is written
 * lasts from checkpoint to checkpoint. No checkpoint runs while records are written; `settle` and `close`
 * make one.
 *
 * Data Store reads run inside one snapshot, which saves taking one per get; TDS reads begin and end a
 * transaction each. In Sync mode the log files are filled with zeroes beforehand, so that a flush overwrites
 * and need not journal the file's growth, and are opened with O_DSYNC (method=dsync), which commits several
 * times as many transactions of many threads as flushing afterwards does (method=fsync). No compression, no
 * checksums (Berkeley DB and LMDB have none either).
 */
#include <stdlib.h>
#include <wiredtiger.h>

#include "peer.h"

struct store {
    WT_CONNECTION *connection;
    int mode;
};

struct session {
    struct store *store;
    WT_SESSION *session;
    WT_CURSOR *cursor;
    int in_transaction;
};

#include "loops.h"

static const char TABLE[] = "table:records";

static const char *why(int code) { return code == 0 ? NULL : wiredtiger_strerror(code); }

static int refuse(char *error, const char *what, int code) {
    snprintf(error, PEER_TEXT_BYTES, "%s: %s", what, wiredtiger_strerror(code));
    return -1;
}

static int long_reader(const struct session *session, const struct peer_job *job) {
    return session->store->mode == MODE_DS && job->kind == KIND_READ;
}

static const char *peer_begin(struct session *session, const struct peer_job *job) {
    if (!long_reader(session, job)) return NULL;
    return why(session->session->begin_transaction(session->session, "isolation=snapshot"));
}

static const char *peer_end(struct session *session, const struct peer_job *job) {
    session->cursor->reset(session->cursor);
    if (!long_reader(session, job)) return NULL;
    return why(session->session->rollback_transaction(session->session, NULL));
}

static const char *peer_put(struct session *session, struct bytes key, struct bytes value, int exists) {
    WT_CURSOR *cursor = session->cursor;
    WT_ITEM k = {.data = key.at, .size = key.length}, v = {.data = value.at, .size = value.length};
    int code;
    do {
        cursor->set_key(cursor, &k);
        cursor->set_value(cursor, &v);
        code = exists ? cursor->update(cursor) : cursor->insert(cursor);
    } while (code == WT_ROLLBACK && !session->in_transaction);
    return why(code);
}

/* The cursor overwrites, so that a record which is not there goes unnoticed: a scan counts what is left. */
static const char *peer_remove(struct session *session, struct bytes key) {
    WT_CURSOR *cursor = session->cursor;
    WT_ITEM k = {.data = key.at, .size = key.length};
    int code;
    do {
        cursor->set_key(cursor, &k);
        code = cursor->remove(cursor);
    } while (code == WT_ROLLBACK);
    return why(code);
}

static const char *peer_get(struct session *session, struct bytes key, const uint8_t **value,
                            size_t *length) {
    WT_CURSOR *cursor = session->cursor;
    WT_ITEM k = {.data = key.at, .size = key.length}, v = {0};
    int code = 0;
    if (session->store->mode != MODE_DS) code = session->session->begin_transaction(session->session, NULL);
    if (code != 0) return why(code);
    cursor->set_key(cursor, &k);
    code = cursor->search(cursor);
    if (code == 0) code = cursor->get_value(cursor, &v);
    *value = v.data;
    *length = v.size;
    if (code != 0 && session->store->mode != MODE_DS)
        session->session->rollback_transaction(session->session, NULL);
    return why(code);
}

static void peer_release(struct session *session) {
    if (session->store->mode != MODE_DS) session->session->commit_transaction(session->session, NULL);
}

static const char *peer_scan(struct session *session, struct scan *scan) {
    WT_CURSOR *cursor = session->cursor;
    WT_ITEM k, v;
    int code = session->session->begin_transaction(session->session, "isolation=snapshot");
    if (code == 0) code = cursor->reset(cursor);
    while (code == 0 && (code = cursor->next(cursor)) == 0) {
        if ((code = cursor->get_key(cursor, &k)) != 0 || (code = cursor->get_value(cursor, &v)) != 0) break;
        scan_visit(scan, k.data, k.size, v.data, v.size);
    }
    cursor->reset(cursor);
    session->session->rollback_transaction(session->session, NULL);
    return code == WT_NOTFOUND ? NULL : why(code);
}

static const char *peer_range(struct session *session, struct bytes from, uint32_t count,
                              struct range *range) {
    WT_CURSOR *cursor = session->cursor;
    WT_ITEM k = {.data = from.at, .size = from.length}, v;
    int exact = 0, code = session->session->begin_transaction(session->session, "isolation=snapshot");
    if (code != 0) return why(code);
    cursor->set_key(cursor, &k);
    code = cursor->search_near(cursor, &exact);
    if (code == 0 && exact < 0) code = cursor->next(cursor);
    while (code == 0) {
        if ((code = cursor->get_key(cursor, &k)) != 0 || (code = cursor->get_value(cursor, &v)) != 0) break;
        range_visit(range, k.data, k.size, v.data, v.size);
        if (range->visited == count) break;
        code = cursor->next(cursor);
    }
    cursor->reset(cursor);
    session->session->rollback_transaction(session->session, NULL);
    return code == WT_NOTFOUND ? NULL : why(code);
}

static const char *peer_modify(struct session *session, struct bytes key, struct change *change) {
    WT_CURSOR *cursor = session->cursor;
    WT_SESSION *transaction = session->session;
    int code;
    do {
        WT_ITEM k = {.data = key.at, .size = key.length}, v = {0};
        if ((code = transaction->begin_transaction(transaction, "isolation=snapshot")) != 0) return why(code);
        cursor->set_key(cursor, &k);
        if ((code = cursor->search(cursor)) == 0 && (code = cursor->get_value(cursor, &v)) == 0) {
            struct bytes value = change_value(change, v.data, v.size);
            v = (WT_ITEM){.data = value.at, .size = value.length};
            cursor->set_value(cursor, &v);
            code = cursor->update(cursor);
        }
        if (code == 0) code = transaction->commit_transaction(transaction, NULL);
        else transaction->rollback_transaction(transaction, NULL);
    } while (code == WT_ROLLBACK);
    return why(code);
}

static const char *peer_batch(struct session *session, int open) {
    session->in_transaction = open;
    if (open) return why(session->session->begin_transaction(session->session, "isolation=snapshot"));
    session->cursor->reset(session->cursor);
    return why(session->session->commit_transaction(session->session, NULL));
}

static const char *version(void) {
    static char text[24];
    int major, minor, patch;
    wiredtiger_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}

static const char *meaning(int mode) {
    switch (mode) {
        case MODE_DS: return "no log; a run of reads is one snapshot";
        case MODE_TDS: return "a get begins and ends a transaction; writes as NoSync";
        case MODE_MEMORY: return "no log: commits last from checkpoint to checkpoint";
        case MODE_NO_SYNC: return "log, transaction_sync=(enabled=false): commits stay in the log buffer";
        case MODE_WRITE_NO_SYNC:
            return "log, transaction_sync=(enabled,method=none): commits are written to the OS";
        case MODE_BACKGROUND: return "as NoSync; log_flush(sync=on) every 50 ms, a checkpoint every 4 s";
        case MODE_UNLOGGED: return "no log";
        case MODE_SYNC:
            return "log, transaction_sync=(enabled,method=dsync), zero-filled log files; group commit";
    }
    return NULL;
}

static void *open_store(const struct peer_options *options, char *error) {
    struct store *store = calloc(1, sizeof *store);
    char config[512], table[256];
    const char *log = "log=(enabled=true,file_max=64MB),transaction_sync=(enabled=false)";
    store->mode = options->mode;
    if (store->mode == MODE_DS || store->mode == MODE_MEMORY || store->mode == MODE_UNLOGGED)
        log = "log=(enabled=false)";
    if (store->mode == MODE_WRITE_NO_SYNC)
        log = "log=(enabled=true,file_max=64MB),transaction_sync=(enabled=true,method=none)";
    if (store->mode == MODE_SYNC)
        log = "log=(enabled=true,file_max=64MB,zero_fill=true),transaction_sync=(enabled=true,method=dsync)";
    const char *transfers = options->direct ? ",direct_io=[data,checkpoint],mmap=false" : "";
    snprintf(config, sizeof config,
             "create,cache_size=%llu,session_max=%u,checkpoint=(wait=0),statistics=(none),"
             "eviction=(threads_min=1,threads_max=2),eviction_target=90,eviction_trigger=97,"
             "eviction_dirty_target=85,eviction_dirty_trigger=95,%s%s",
             (unsigned long long)options->cache_bytes, options->threads + 32, log, transfers);
    unsigned leaf = options->page_size ? options->page_size : 32768;
    snprintf(table, sizeof table,
             "key_format=u,value_format=u,checksum=off,leaf_page_max=%u,internal_page_max=%u,"
             "memory_page_max=10MB",
             leaf, leaf < 4096 ? 4096 : leaf);
    int code = wiredtiger_open(options->dir, NULL, config, &store->connection);
    if (code == 0) {
        WT_SESSION *session;
        code = store->connection->open_session(store->connection, NULL, NULL, &session);
        if (code == 0) code = session->create(session, TABLE, table);
        if (code == 0) code = session->close(session, NULL);
    }
    if (code == 0) return store;
    refuse(error, "open", code);
    if (store->connection != NULL) store->connection->close(store->connection, NULL);
    free(store);
    return NULL;
}

static void *new_session(void *of, char *error) {
    struct session *session = calloc(1, sizeof *session);
    WT_CONNECTION *connection = (session->store = of)->connection;
    int code = connection->open_session(connection, NULL, NULL, &session->session);
    if (code == 0)
        code =
            session->session->open_cursor(session->session, TABLE, NULL, "overwrite=true", &session->cursor);
    if (code == 0) return session;
    refuse(error, "session", code);
    if (session->session != NULL) session->session->close(session->session, NULL);
    free(session);
    return NULL;
}

static void end_session(void *of) {
    struct session *session = of;
    session->session->close(session->session, NULL);
    free(session);
}

static int settle(void *of, char *error) {
    struct store *store = of;
    WT_SESSION *session;
    int code = store->connection->open_session(store->connection, NULL, NULL, &session);
    if (code == 0) code = session->checkpoint(session, NULL);
    if (code == 0) code = session->close(session, NULL);
    return code == 0 ? 0 : refuse(error, "checkpoint", code);
}

static int upkeep(void *of, int checkpoint, char *error) {
    struct store *store = of;
    int logged = store->mode != MODE_MEMORY && store->mode != MODE_UNLOGGED;
    if (checkpoint || !logged) return settle(of, error);
    WT_SESSION *session;
    int code = store->connection->open_session(store->connection, NULL, NULL, &session);
    if (code == 0) code = session->log_flush(session, "sync=on");
    if (code == 0) code = session->close(session, NULL);
    return code == 0 ? 0 : refuse(error, "flush", code);
}

static int close_store(void *of, char *error) {
    struct store *store = of;
    int code = store->connection->close(store->connection, NULL);
    free(store);
    return code == 0 ? 0 : refuse(error, "close", code);
}

const struct peer peer_wiredtiger = {version, meaning, open_store, new_session,
                                     loops_run, end_session, settle, upkeep, close_store};
