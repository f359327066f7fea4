/* Tkrzw 1.0, through tkrzw_langc.h: its hash table on a file, HashDBM.
 *
 * It has no transactions, and its log is none that commits could be in: so it takes part as a Data Store
 * alone. The file is mapped into memory (MemoryMapParallelFile, its default), and records are updated in
 * place where they fit. As its manual advises there are about two buckets a record: one for each 64 bytes of
 * cache. No checksums of records; offsets of four bytes, which with records aligned to eight reach as far as
 * any run here.
 *
 * A read is `process` with a function that is shown the record in place, which is faster than `get`: that
 * returns a copy which has to be freed.
 */
#include <stdlib.h>
#include <tkrzw_langc.h>

#include "peer.h"

struct store {
    TkrzwDBM *dbm;
};

struct session {
    struct store *store;
    uint8_t value[VALUE_BYTES_MAX];
    size_t length;
};

#include "loops.h"

/* Bytes of cache for which there is a bucket. */
enum { BYTES_A_BUCKET = 64 };

static const char *why(int done) { return done ? NULL : tkrzw_get_last_status_message(); }

static int refuse(char *error, const char *what) {
    snprintf(error, PEER_TEXT_BYTES, "%s: %s", what, tkrzw_get_last_status_message());
    return -1;
}

static const char *peer_begin(struct session *session, const struct peer_job *job) {
    (void)session, (void)job;
    return NULL;
}

static const char *peer_end(struct session *session, const struct peer_job *job) {
    (void)session, (void)job;
    return NULL;
}

static const char *peer_put(struct session *session, struct bytes key, struct bytes value, int exists) {
    (void)exists;
    return why(tkrzw_dbm_set(session->store->dbm, (const char *)key.at, (int32_t)key.length,
                             (const char *)value.at, (int32_t)value.length, 1));
}

/* Called with the record under its lock: what is shown does not last, so the value is copied as a caller
 * would. */
static const char *show(void *of, const char *key, int32_t key_length, const char *value,
                        int32_t value_length, int32_t *new_length) {
    struct session *session = of;
    (void)key, (void)key_length, (void)new_length;
    session->length = 0;
    if (value != NULL && value_length >= 0 && value_length <= VALUE_BYTES_MAX) {
        memcpy(session->value, value, (size_t)value_length);
        session->length = (size_t)value_length;
    }
    return TKRZW_REC_PROC_NOOP;
}

static const char *peer_get(struct session *session, struct bytes key, const uint8_t **value,
                            size_t *length) {
    const char *failed = why(
        tkrzw_dbm_process(session->store->dbm, (const char *)key.at, (int32_t)key.length, show, session, 0));
    *value = session->value;
    *length = session->length;
    return failed;
}

static void peer_release(struct session *session) { (void)session; }

static const char *peer_remove(struct session *session, struct bytes key) {
    return why(tkrzw_dbm_remove(session->store->dbm, (const char *)key.at, (int32_t)key.length));
}

static const char *visit(void *of, const char *key, int32_t key_length, const char *value,
                         int32_t value_length, int32_t *new_length) {
    (void)new_length;
    /* Before the first record and after the last it is called without one. */
    if (key_length >= 0 && value != NULL)
        scan_visit(of, (const uint8_t *)key, (size_t)key_length, (const uint8_t *)value,
                   (size_t)value_length);
    return TKRZW_REC_PROC_NOOP;
}

static const char *peer_scan(struct session *session, struct scan *scan) {
    return why(tkrzw_dbm_process_each(session->store->dbm, visit, scan, 0));
}

static const char *peer_range(struct session *session, struct bytes from, uint32_t count,
                              struct range *range) {
    (void)session, (void)from, (void)count, (void)range;
    return "it keeps no order";
}

static const char *peer_modify(struct session *session, struct bytes key, struct change *change) {
    (void)session, (void)key, (void)change;
    return "it has no transactions that read";
}

static const char *peer_batch(struct session *session, int open) {
    (void)session, (void)open;
    return NULL;
}

static const char *version(void) { return TKRZW_PACKAGE_VERSION; }

static const char *meaning(int mode) {
    switch (mode) {
        case MODE_DS: return "HashDBM on a mapped file, updated in place; no log";
        case MODE_UNLOGGED: return "as DS: a record is locked while it is read or set";
    }
    return NULL;
}

static void *open_hash(const struct peer_options *options, char *error) {
    char path[4096], settings[400];
    struct store *store = calloc(1, sizeof *store);
    snprintf(path, sizeof path, "%s/records.tkh", options->dir);
    snprintf(settings, sizeof settings,
             "dbm=HashDBM,file=MemoryMapParallelFile,update_mode=UPDATE_IN_PLACE,record_crc_mode=NONE,"
             "offset_width=4,align_pow=3,num_buckets=%llu",
             (unsigned long long)(options->cache_bytes / BYTES_A_BUCKET));
    store->dbm = tkrzw_dbm_open(path, 1, settings);
    if (store->dbm != NULL) return store;
    refuse(error, "open");
    free(store);
    return NULL;
}

static void *new_session(void *of, char *error) {
    (void)error;
    struct session *session = calloc(1, sizeof *session);
    session->store = of;
    return session;
}

static void end_session(void *of) { free(of); }

static int settle(void *of, char *error) {
    struct store *store = of;
    return tkrzw_dbm_synchronize(store->dbm, 1, NULL, NULL, "") ? 0 : refuse(error, "synchronize");
}

static int upkeep(void *of, int checkpoint, char *error) {
    (void)checkpoint;
    return settle(of, error);
}

static int close_store(void *of, char *error) {
    struct store *store = of;
    int closed = tkrzw_dbm_close(store->dbm) ? 0 : refuse(error, "close");
    free(store);
    return closed;
}

const struct peer peer_tkrzw_hash = {version, meaning, open_hash, new_session,
                                     loops_run, end_session, settle, upkeep, close_store};
