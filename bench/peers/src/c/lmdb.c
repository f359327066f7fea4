/* LMDB 0.9, through lmdb.h. `lmdb-dups` keeps a hundred values for each key, sorted (MDB_DUPSORT) and of one
 * length (MDB_DUPFIXED), and scans them a page at a time (MDB_GET_MULTIPLE); each value is the number of a
 * record, as that is in its key, and the record's value. It has no updates. Else it is as `lmdb`.
 *
 * `lmdb` and `lmdb-writemap` differ in two modes only:
 *
 *                 lmdb                                  lmdb-writemap
 *   WriteNoSync   MDB_NOSYNC: a commit pwrites its      MDB_NOSYNC|MDB_WRITEMAP: a commit leaves its pages
 *                 pages to the OS; consistent after     in the shared map; safe from a crash of the process,
 *                 a crash of the OS if the filesystem   but a crash of the OS may corrupt the file, so this
 *                 keeps writes in order                 is less than the mode asks
 *   Sync          pwrite, fdatasync, O_DSYNC meta page  msync
 *
 * The weaker modes use the write map in both. The map is 64 GiB of address space over a sparse file, and the
 * cache size says nothing to LMDB: its cache is the operating system's. A run of Data Store writes is one
 * transaction, committed at its end inside the timing; a run of Data Store reads is one snapshot; a TDS read
 * renews and resets its thread's read transaction. MDB_APPEND is used in no run, since it needs to be told
 * that the keys rise. The page size is the machine's.
 */
#include <lmdb.h>
#include <stdlib.h>

#include "peer.h"

struct store {
    MDB_env *env;
    MDB_dbi dbi;
    int mode;
    int dups;
};

struct session {
    struct store *store;
    MDB_txn *reader;
    MDB_cursor *reading;
    MDB_txn *writer;  /* a Data Store run's, or a loading batch's; else a put has its own */
    MDB_cursor *writing;
    int cursor;  /* whether the run asks for operations through the cursors */
};

#include "loops.h"

enum { VALUES_A_KEY = 100, PAIR_BYTES = KEY_BYTES + VALUE_BYTES };

static const char *why(int code) { return code == 0 ? NULL : mdb_strerror(code); }

static int refuse(char *error, const char *what, int code) {
    snprintf(error, PEER_TEXT_BYTES, "%s: %s", what, mdb_strerror(code));
    return -1;
}

static const char *open_writer(struct session *session) {
    int code = mdb_txn_begin(session->store->env, NULL, 0, &session->writer);
    if (code == 0) code = mdb_cursor_open(session->writer, session->store->dbi, &session->writing);
    return why(code);
}

static const char *commit_writer(struct session *session) {
    MDB_txn *writer = session->writer;
    session->writer = NULL;
    mdb_cursor_close(session->writing);
    return why(mdb_txn_commit(writer));
}

static int one_transaction(const struct session *session, const struct peer_job *job) {
    return session->store->mode == MODE_DS &&
           (job->kind == KIND_WRITE || job->kind == KIND_UPDATE || job->kind == KIND_DELETE);
}

static const char *renew_reader(struct session *session) {
    int code = mdb_txn_renew(session->reader);
    if (code == 0) code = mdb_cursor_renew(session->reader, session->reading);
    return why(code);
}

static int long_reader(const struct session *session, const struct peer_job *job) {
    return session->store->mode == MODE_DS && job->kind == KIND_READ;
}

static const char *peer_begin(struct session *session, const struct peer_job *job) {
    session->cursor = job->cursor;
    if (one_transaction(session, job)) return open_writer(session);
    if (long_reader(session, job)) return renew_reader(session);
    return NULL;
}

static const char *peer_end(struct session *session, const struct peer_job *job) {
    if (one_transaction(session, job)) return commit_writer(session);
    if (long_reader(session, job)) mdb_txn_reset(session->reader);
    return NULL;
}

static const char *peer_put(struct session *session, struct bytes key, struct bytes value, int exists) {
    (void)exists;
    MDB_val k = {key.length, (void *)key.at}, v = {value.length, (void *)value.at};
    uint8_t group[KEY_BYTES], pair[PAIR_BYTES];
    if (session->store->dups) {
        workload_key_bytes(workload_key_number(key.at) / VALUES_A_KEY, group);
        memcpy(pair, key.at, KEY_BYTES);
        memcpy(pair + KEY_BYTES, value.at, VALUE_BYTES);
        k.mv_data = group;
        v = (MDB_val){PAIR_BYTES, pair};
    }
    if (session->writer != NULL) {
        if (session->cursor) return why(mdb_cursor_put(session->writing, &k, &v, 0));
        return why(mdb_put(session->writer, session->store->dbi, &k, &v, 0));
    }
    MDB_txn *txn;
    int code = mdb_txn_begin(session->store->env, NULL, 0, &txn);
    if (code != 0) return why(code);
    if ((code = mdb_put(txn, session->store->dbi, &k, &v, 0)) != 0) {
        mdb_txn_abort(txn);
        return why(code);
    }
    return why(mdb_txn_commit(txn));
}

static const char *peer_remove(struct session *session, struct bytes key) {
    MDB_val k = {key.length, (void *)key.at};
    if (session->writer != NULL) return why(mdb_del(session->writer, session->store->dbi, &k, NULL));
    MDB_txn *txn;
    int code = mdb_txn_begin(session->store->env, NULL, 0, &txn);
    if (code != 0) return why(code);
    if ((code = mdb_del(txn, session->store->dbi, &k, NULL)) != 0) {
        mdb_txn_abort(txn);
        return why(code);
    }
    return why(mdb_txn_commit(txn));
}

static const char *peer_get(struct session *session, struct bytes key, const uint8_t **value,
                            size_t *length) {
    MDB_val k = {key.length, (void *)key.at}, v = {0, NULL};
    int code;
    if (session->store->mode == MODE_DS) {
        code = session->cursor ? mdb_cursor_get(session->reading, &k, &v, MDB_SET)
                               : mdb_get(session->reader, session->store->dbi, &k, &v);
    } else {
        if ((code = mdb_txn_renew(session->reader)) != 0) return why(code);
        if ((code = mdb_get(session->reader, session->store->dbi, &k, &v)) != 0)
            mdb_txn_reset(session->reader);
    }
    *value = v.mv_data;
    *length = v.mv_size;
    return why(code);
}

static void peer_release(struct session *session) {
    if (session->store->mode != MODE_DS) mdb_txn_reset(session->reader);
}

/* All values of a key are on one page, or on several of a tree of their own. */
static int scan_dups(struct session *session, struct scan *scan) {
    MDB_val k, v;
    int code = mdb_cursor_get(session->reading, &k, &v, MDB_FIRST);
    for (; code == 0; code = mdb_cursor_get(session->reading, &k, &v, MDB_NEXT_NODUP)) {
        code = mdb_cursor_get(session->reading, &k, &v, MDB_GET_MULTIPLE);
        for (; code == 0; code = mdb_cursor_get(session->reading, &k, &v, MDB_NEXT_MULTIPLE)) {
            const uint8_t *pair = v.mv_data, *end = pair + v.mv_size;
            for (; pair < end; pair += PAIR_BYTES)
                scan_visit(scan, pair, KEY_BYTES, pair + KEY_BYTES, VALUE_BYTES);
        }
        if (code != MDB_NOTFOUND) break;
    }
    return code;
}

static const char *peer_scan(struct session *session, struct scan *scan) {
    const char *failed = renew_reader(session);
    if (failed != NULL) return failed;
    MDB_val k, v;
    int code;
    if (session->store->dups) {
        code = scan_dups(session, scan);
        mdb_txn_reset(session->reader);
        return code == MDB_NOTFOUND ? NULL : why(code);
    }
    while ((code = mdb_cursor_get(session->reading, &k, &v, MDB_NEXT)) == 0)
        scan_visit(scan, k.mv_data, k.mv_size, v.mv_data, v.mv_size);
    mdb_txn_reset(session->reader);
    return code == MDB_NOTFOUND ? NULL : why(code);
}

static const char *peer_range(struct session *session, struct bytes from, uint32_t count,
                              struct range *range) {
    const char *failed = renew_reader(session);
    if (failed != NULL) return failed;
    MDB_val k = {from.length, (void *)from.at}, v;
    int code = mdb_cursor_get(session->reading, &k, &v, MDB_SET_RANGE);
    while (code == 0) {
        range_visit(range, k.mv_data, k.mv_size, v.mv_data, v.mv_size);
        if (range->visited == count) break;
        code = mdb_cursor_get(session->reading, &k, &v, MDB_NEXT);
    }
    mdb_txn_reset(session->reader);
    return code == MDB_NOTFOUND ? NULL : why(code);
}

static const char *peer_modify(struct session *session, struct bytes key, struct change *change) {
    MDB_val k = {key.length, (void *)key.at}, v;
    MDB_txn *txn;
    int code = mdb_txn_begin(session->store->env, NULL, 0, &txn);
    if (code != 0) return why(code);
    if ((code = mdb_get(txn, session->store->dbi, &k, &v)) == 0) {
        struct bytes value = change_value(change, v.mv_data, v.mv_size);
        v = (MDB_val){value.length, (void *)value.at};
        code = mdb_put(txn, session->store->dbi, &k, &v, 0);
    }
    if (code == 0) return why(mdb_txn_commit(txn));
    mdb_txn_abort(txn);
    return why(code);
}

static const char *peer_batch(struct session *session, int open) {
    return open ? open_writer(session) : commit_writer(session);
}

static const char *version(void) { return mdb_version(NULL, NULL, NULL); }

static const char *meaning_but(int mode, int writemap) {
    switch (mode) {
        case MODE_DS:
            return "MDB_NOSYNC|MDB_WRITEMAP; one transaction a run of writes, one snapshot a run of reads";
        case MODE_TDS: return "a read transaction renewed and reset per get; writes as NoSync";
        case MODE_MEMORY: return "as NoSync: LMDB has no log";
        case MODE_NO_SYNC: return "MDB_NOSYNC|MDB_WRITEMAP, a commit per put";
        case MODE_WRITE_NO_SYNC:
            return writemap
                       ? "MDB_NOSYNC|MDB_WRITEMAP, a commit per put (a crash of the OS may corrupt the file)"
                       : "MDB_NOSYNC without the write map: a commit writes its pages to the OS";
        case MODE_BACKGROUND:
            return "MDB_NOSYNC|MDB_WRITEMAP, a commit per put; mdb_env_sync every 50 ms: it has no log";
        case MODE_UNLOGGED: return "as NoSync";
        case MODE_SYNC:
            return writemap ? "MDB_WRITEMAP, a commit per put, msync"
                            : "no flags: a commit per put, fdatasync";
    }
    return NULL;
}

static const char *meaning(int mode) { return meaning_but(mode, 0); }
static const char *meaning_writemap(int mode) { return meaning_but(mode, 1); }

static void *open_as(const struct peer_options *options, char *error, int writemap, int dups) {
    struct store *store = calloc(1, sizeof *store);
    store->dups = dups;
    int mode = store->mode = options->mode;
    unsigned flags = MDB_NORDAHEAD;
    if (mode != MODE_SYNC) flags |= MDB_NOSYNC;
    if (writemap || (mode != MODE_SYNC && mode != MODE_WRITE_NO_SYNC)) flags |= MDB_WRITEMAP;
    MDB_txn *txn;
    int code = mdb_env_create(&store->env);
    if (code == 0) code = mdb_env_set_mapsize(store->env, (size_t)64 << 30);
    if (code == 0) code = mdb_env_set_maxreaders(store->env, options->threads + 8);
    if (code == 0) code = mdb_env_open(store->env, options->dir, flags | MDB_NOTLS, 0644);
    if (code == 0 && (code = mdb_txn_begin(store->env, NULL, 0, &txn)) == 0) {
        code = mdb_dbi_open(txn, NULL, dups ? MDB_DUPSORT | MDB_DUPFIXED : 0, &store->dbi);
        if (code == 0) code = mdb_txn_commit(txn);
        else mdb_txn_abort(txn);
    }
    if (code == 0) return store;
    refuse(error, "open", code);
    if (store->env != NULL) mdb_env_close(store->env);
    free(store);
    return NULL;
}

static void *open_store(const struct peer_options *options, char *error) {
    return open_as(options, error, 0, 0);
}
static void *open_writemap(const struct peer_options *options, char *error) {
    return open_as(options, error, 1, 0);
}
static void *open_dups(const struct peer_options *options, char *error) {
    return open_as(options, error, 0, 1);
}

static void *new_session(void *of, char *error) {
    struct session *session = calloc(1, sizeof *session);
    session->store = of;
    int code = mdb_txn_begin(session->store->env, NULL, MDB_RDONLY, &session->reader);
    if (code == 0) code = mdb_cursor_open(session->reader, session->store->dbi, &session->reading);
    if (code == 0) {
        /* A reader that stays open would keep writers from reusing pages. */
        mdb_txn_reset(session->reader);
        return session;
    }
    refuse(error, "read transaction", code);
    free(session);
    return NULL;
}

static void end_session(void *of) {
    struct session *session = of;
    mdb_cursor_close(session->reading);
    mdb_txn_abort(session->reader);
    free(session);
}

static int settle(void *of, char *error) {
    struct store *store = of;
    int code = mdb_env_sync(store->env, 1);
    return code == 0 ? 0 : refuse(error, "sync", code);
}

static int upkeep(void *of, int checkpoint, char *error) {
    (void)checkpoint;
    return settle(of, error);
}

static int close_store(void *of, char *error) {
    struct store *store = of;
    int code = settle(store, error);
    mdb_env_close(store->env);
    free(store);
    return code;
}

const struct peer peer_lmdb = {version, meaning, open_store, new_session,
                               loops_run, end_session, settle, upkeep, close_store};

const struct peer peer_lmdb_dups = {version, meaning, open_dups, new_session,
                                    loops_run, end_session, settle, upkeep, close_store};

const struct peer peer_lmdb_writemap = {version, meaning_writemap, open_writemap, new_session,
                                        loops_run, end_session, settle, upkeep, close_store};
