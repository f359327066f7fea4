/* Berkeley DB 5.3, through db.h: the btree (`bdb`), the hash table (`bdb-hash`) and the queue (`bdb-queue`).
 *
 * The environment is private (one process) and free-threaded only when more than one thread was announced, so
 * a single thread pays for no mutexes; of several, each has a handle of its own. A Data Store environment has
 * a buffer pool and nothing else; a transactional one has locking, logging and transactions, and each put is
 * a transaction of its own (DB_AUTO_COMMIT). Deadlocks among threads are detected at once and the put that
 * lost is tried again. No checkpoints run while records are written; `settle` and `close` make one, and
 * `close` removes the logs that it frees.
 *
 * A read is DB->get into the caller's memory; in TDS without a transaction handle, which locks the page,
 * copies and unlocks. Bulk: DB_MULTIPLE_KEY into 4 MB.
 *
 * The queue is put to with DB_APPEND and taken from with DB_CONSUME, each a transaction of its own too. It
 * has no extents, so that taking frees nothing; its pages are of 4 KB, which is faster here than 32.
 */
#include <db.h>
#include <errno.h>
#include <stdlib.h>

#include "peer.h"

struct store {
    DB_ENV *env;
    DB *db;
    DBTYPE type;
    u_int32_t thread;  /* DB_THREAD if there are several */
    int mode;
    int queue;
};

struct session {
    struct store *store;
    DB *db;       /* the store's, or one of its own if there are several sessions */
    DBC *cursor;  /* for a run that asks for one */
    DB_TXN *batch;
    uint8_t value[VALUE_BYTES_MAX];
};

#define PEER_TAKES
#include "loops.h"

enum { BULK_BYTES = 4 << 20 };

static const char *why(int code) { return code == 0 ? NULL : db_strerror(code); }

static int refuse(char *error, const char *what, int code) {
    snprintf(error, PEER_TEXT_BYTES, "%s: %s", what, db_strerror(code));
    return -1;
}

static int transactional(const struct store *store) {
    return store->mode != MODE_DS && store->mode != MODE_UNLOGGED;
}

static const char *peer_begin(struct session *session, const struct peer_job *job) {
    DB *db = session->db;
    if (!job->cursor || transactional(session->store)) return NULL;
    return why(db->cursor(db, NULL, &session->cursor, 0));
}

static const char *peer_end(struct session *session, const struct peer_job *job) {
    (void)job;
    DBC *cursor = session->cursor;
    session->cursor = NULL;
    return cursor == NULL ? NULL : why(cursor->close(cursor));
}

static const char *peer_put(struct session *session, struct bytes key, struct bytes value, int exists) {
    (void)exists;
    DB *db = session->db;
    DBT k = {.data = (void *)key.at, .size = key.length},
        v = {.data = (void *)value.at, .size = value.length};
    if (session->cursor != NULL) return why(session->cursor->put(session->cursor, &k, &v, DB_KEYFIRST));
    db_recno_t number;
    int code;
    if (session->store->queue) k = (DBT){.data = &number, .ulen = sizeof number, .flags = DB_DBT_USERMEM};
    do code = db->put(db, session->batch, &k, &v, session->store->queue ? DB_APPEND : 0);
    while (code == DB_LOCK_DEADLOCK && session->batch == NULL);
    return why(code);
}

static const char *peer_get(struct session *session, struct bytes key, const uint8_t **value,
                            size_t *length) {
    DB *db = session->db;
    DBT k = {.data = (void *)key.at, .size = key.length, .ulen = key.length, .flags = DB_DBT_USERMEM};
    DBT v = {.data = session->value, .ulen = VALUE_BYTES_MAX, .flags = DB_DBT_USERMEM};
    int code;
    if (session->cursor != NULL) {
        code = session->cursor->get(session->cursor, &k, &v, DB_SET);
    } else {
        do code = db->get(db, NULL, &k, &v, 0);
        while (code == DB_LOCK_DEADLOCK);
    }
    *value = session->value;
    *length = v.size;
    return why(code);
}

static const char *peer_remove(struct session *session, struct bytes key) {
    DB *db = session->db;
    DBT k = {.data = (void *)key.at, .size = key.length};
    int code;
    do code = db->del(db, NULL, &k, 0);
    while (code == DB_LOCK_DEADLOCK);
    return why(code);
}

static void peer_release(struct session *session) { (void)session; }

static const char *peer_take(struct session *session, const uint8_t **value, size_t *length) {
    DB *db = session->db;
    db_recno_t number;
    DBT k = {.data = &number, .ulen = sizeof number, .flags = DB_DBT_USERMEM};
    DBT v = {.data = session->value, .ulen = VALUE_BYTES_MAX, .flags = DB_DBT_USERMEM};
    int code;
    if (!session->store->queue) return "it is no queue";
    do code = db->get(db, session->batch, &k, &v, DB_CONSUME);
    while (code == DB_LOCK_DEADLOCK);
    *value = session->value;
    *length = v.size;
    return why(code);
}

static const char *peer_scan(struct session *session, struct scan *scan) {
    DB *db = session->db;
    DBC *cursor;
    DBT k = {0}, v = {.ulen = BULK_BYTES, .flags = DB_DBT_USERMEM};
    int code = db->cursor(db, NULL, &cursor, DB_CURSOR_BULK);
    if (code != 0) return why(code);
    v.data = malloc(BULK_BYTES);
    while (v.data != NULL && (code = cursor->get(cursor, &k, &v, DB_MULTIPLE_KEY | DB_NEXT)) == 0) {
        void *at, *key, *value;
        size_t key_length, value_length;
        for (DB_MULTIPLE_INIT(at, &v);;) {
            DB_MULTIPLE_KEY_NEXT(at, &v, key, key_length, value, value_length);
            if (at == NULL) break;
            scan_visit(scan, key, key_length, value, value_length);
        }
    }
    if (v.data == NULL) code = ENOMEM;
    free(v.data);
    cursor->close(cursor);
    return code == DB_NOTFOUND ? NULL : why(code);
}

static const char *peer_range(struct session *session, struct bytes from, uint32_t count,
                              struct range *range) {
    DB *db = session->db;
    uint8_t key[KEY_BYTES_MAX];
    int code;
    if (session->store->type != DB_BTREE) return "it keeps no order";
    do {
        DBC *cursor;
        DBT k = {.data = key, .size = from.length, .ulen = sizeof key, .flags = DB_DBT_USERMEM};
        DBT v = {.data = session->value, .ulen = VALUE_BYTES_MAX, .flags = DB_DBT_USERMEM};
        memcpy(key, from.at, from.length);
        range->visited = range->wrong = 0;
        if ((code = db->cursor(db, NULL, &cursor, 0)) != 0) return why(code);
        code = cursor->get(cursor, &k, &v, DB_SET_RANGE);
        while (code == 0) {
            range_visit(range, key, k.size, session->value, v.size);
            if (range->visited == count) break;
            code = cursor->get(cursor, &k, &v, DB_NEXT);
        }
        cursor->close(cursor);
    } while (code == DB_LOCK_DEADLOCK);
    return code == DB_NOTFOUND ? NULL : why(code);
}

/* Reads with DB_RMW, which takes the write lock at once: two that had read could not both go on to write. */
static const char *peer_modify(struct session *session, struct bytes key, struct change *change) {
    DB *db = session->db;
    DB_ENV *env = session->store->env;
    int code;
    do {
        DB_TXN *txn = NULL;
        DBT k = {.data = (void *)key.at, .size = key.length, .ulen = key.length, .flags = DB_DBT_USERMEM};
        DBT v = {.data = session->value, .ulen = VALUE_BYTES_MAX, .flags = DB_DBT_USERMEM};
        if (transactional(session->store) && (code = env->txn_begin(env, NULL, &txn, 0)) != 0)
            return why(code);
        if ((code = db->get(db, txn, &k, &v, txn != NULL ? DB_RMW : 0)) == 0) {
            struct bytes value = change_value(change, session->value, v.size);
            DBT new = {.data = (void *)value.at, .size = value.length};
            code = db->put(db, txn, &k, &new, 0);
        }
        if (txn != NULL) {
            if (code == 0) code = txn->commit(txn, 0);
            else txn->abort(txn);
        }
    } while (code == DB_LOCK_DEADLOCK);
    return why(code);
}

static const char *peer_batch(struct session *session, int open) {
    DB_ENV *env = session->store->env;
    DB_TXN *batch = session->batch;
    if (!transactional(session->store)) return NULL;
    if (open) return why(env->txn_begin(env, NULL, &session->batch, 0));
    session->batch = NULL;
    return why(batch->commit(batch, DB_TXN_NOSYNC));
}

static const char *version(void) { return DB_VERSION_STRING; }

static const char *meaning(int mode) {
    switch (mode) {
        case MODE_DS: return "private environment, buffer pool only: no locks, no log, no transactions";
        case MODE_TDS:
            return "locking, logging, transactions; a get locks its page; a put is a DB_TXN_NOSYNC "
                   "transaction";
        case MODE_MEMORY: return "TDS with DB_LOG_IN_MEMORY";
        case MODE_NO_SYNC: return "TDS with DB_TXN_NOSYNC: commits stay in the log buffer";
        case MODE_WRITE_NO_SYNC: return "TDS with DB_TXN_WRITE_NOSYNC: commits are written to the OS";
        case MODE_SYNC: return "TDS, a commit flushes the log; group commit among threads";
        case MODE_BACKGROUND:
            return "TDS with DB_TXN_NOSYNC; DB_ENV->log_flush every 50 ms, txn_checkpoint every 4 s";
        case MODE_UNLOGGED: return "Concurrent Data Store (DB_INIT_CDB): many readers or one writer, no log";
    }
    return NULL;
}

static void close_quietly(struct store *store) {
    if (store->db != NULL) store->db->close(store->db, 0);
    if (store->env != NULL) store->env->close(store->env, 0);
    free(store);
}

static int configure(DB_ENV *env, const struct peer_options *options) {
    int code = env->set_cachesize(env, (u_int32_t)(options->cache_bytes >> 30),
                                  (u_int32_t)(options->cache_bytes & ((1u << 30) - 1)), 1);
    if (code != 0 || options->mode == MODE_DS || options->mode == MODE_UNLOGGED) return code;
    if ((code = env->set_lg_bsize(env, (u_int32_t)options->log_buffer)) != 0) return code;
    if ((code = env->set_lk_detect(env, DB_LOCK_DEFAULT)) != 0) return code;
    if ((code = env->set_lk_max_locks(env, 20000)) != 0) return code;
    if ((code = env->set_lk_max_objects(env, 20000)) != 0) return code;
    if (options->mode == MODE_MEMORY) return env->log_set_config(env, DB_LOG_IN_MEMORY, 1);
    /* A log file must hold several log buffers. */
    uint64_t log_file = options->log_buffer * 8 < (64u << 20) ? 64u << 20 : options->log_buffer * 8;
    if ((code = env->set_lg_max(env, (u_int32_t)(log_file > (1u << 30) ? 1u << 30 : log_file))) != 0)
        return code;
    if (options->mode == MODE_WRITE_NO_SYNC) return env->set_flags(env, DB_TXN_WRITE_NOSYNC, 1);
    if (options->mode != MODE_SYNC) return env->set_flags(env, DB_TXN_NOSYNC, 1);
    return 0;
}

/* A handle; one that must be created gets the page size. */
static int open_handle(struct store *store, DB **db, uint32_t page_size) {
    int code = db_create(db, store->env, 0);
    if (code != 0) return code;
    if (page_size != 0) code = (*db)->set_pagesize(*db, page_size);
    if (code == 0 && page_size != 0 && store->queue) code = (*db)->set_re_len(*db, VALUE_BYTES);
    if (code == 0)
        code = (*db)->open(*db, NULL, "records.db", NULL, store->type,
                           DB_CREATE | store->thread | (transactional(store) ? DB_AUTO_COMMIT : 0), 0644);
    return code;
}

static void *open_as(const struct peer_options *options, char *error, DBTYPE type, uint32_t page_size) {
    struct store *store = calloc(1, sizeof *store);
    int code = db_env_create(&store->env, 0);
    u_int32_t flags = DB_CREATE | DB_PRIVATE | DB_INIT_MPOOL;
    store->thread = options->threads > 1 ? DB_THREAD : 0;
    store->mode = options->mode;
    store->type = type;
    store->queue = type == DB_QUEUE;
    if (store->mode == MODE_UNLOGGED) flags |= DB_INIT_CDB;
    if (transactional(store)) flags |= DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_TXN | DB_RECOVER;
    if (code == 0) code = configure(store->env, options);
    if (code == 0) code = store->env->open(store->env, options->dir, flags | store->thread, 0644);
    if (code == 0) code = open_handle(store, &store->db, options->page_size ? options->page_size : page_size);
    if (code == 0) return store;
    refuse(error, "open", code);
    close_quietly(store);
    return NULL;
}

static void *open_btree(const struct peer_options *options, char *error) {
    return open_as(options, error, DB_BTREE, 32768);
}

static void *open_hash(const struct peer_options *options, char *error) {
    return open_as(options, error, DB_HASH, 32768);
}

static void *open_queue(const struct peer_options *options, char *error) {
    return open_as(options, error, DB_QUEUE, 4096);
}

static void *new_session(void *of, char *error) {
    struct session *session = calloc(1, sizeof *session);
    struct store *store = session->store = of;
    session->db = store->db;
    if (store->thread == 0) return session;
    int code = open_handle(store, &session->db, 0);
    if (code == 0) return session;
    refuse(error, "handle", code);
    if (session->db != NULL) session->db->close(session->db, 0);
    free(session);
    return NULL;
}

static void end_session(void *of) {
    struct session *session = of;
    /* What it has changed is in the environment's cache, which the store writes. */
    if (session->db != session->store->db) session->db->close(session->db, DB_NOSYNC);
    free(session);
}

static int settle(void *of, char *error) {
    struct store *store = of;
    int code = transactional(store) ? store->env->txn_checkpoint(store->env, 0, 0, DB_FORCE)
                                    : store->env->memp_sync(store->env, NULL);
    return code == 0 ? 0 : refuse(error, "checkpoint", code);
}

static int upkeep(void *of, int checkpoint, char *error) {
    struct store *store = of;
    DB_ENV *env = store->env;
    if (!transactional(store)) return settle(of, error);
    int code = checkpoint ? env->txn_checkpoint(env, 0, 0, 0) : env->log_flush(env, NULL);
    if (code == 0 && checkpoint && store->mode != MODE_MEMORY)
        code = env->log_archive(env, NULL, DB_ARCH_REMOVE);
    return code == 0 ? 0 : refuse(error, checkpoint ? "checkpoint" : "flush", code);
}

static int close_store(void *of, char *error) {
    struct store *store = of;
    DB_ENV *env = store->env;
    int code = store->db->close(store->db, 0), logged = transactional(store) && store->mode != MODE_MEMORY;
    if (code == 0 && transactional(store)) code = env->txn_checkpoint(env, 0, 0, DB_FORCE);
    if (code == 0 && logged) code = env->log_archive(env, NULL, DB_ARCH_REMOVE);
    int closed = env->close(env, 0);
    free(store);
    if (code == 0) code = closed;
    return code == 0 ? 0 : refuse(error, "close", code);
}

const struct peer peer_bdb = {version, meaning, open_btree, new_session,
                              loops_run, end_session, settle, upkeep, close_store};

const struct peer peer_bdb_hash = {version, meaning, open_hash, new_session,
                                   loops_run, end_session, settle, upkeep, close_store};

const struct peer peer_bdb_queue = {version, meaning, open_queue, new_session,
                                    loops_run, end_session, settle, upkeep, close_store};
