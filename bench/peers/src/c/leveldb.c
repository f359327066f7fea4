/* LevelDB 1.23, through leveldb/c.h.
 *
 * A write always goes to its log, which cannot be switched off or kept in memory: all modes but Sync are the
 * same, a put with sync=false. It has no transactions; one put is atomic, and one get reads one version,
 * which is all that a transaction of one operation asks. Values come back in memory that the C API allocates,
 * freed in the loop.
 *
 * The memtable has a quarter of the cache, at most 64 MB, on top of the block cache; Bloom filters of 10
 * bits; no compression (the values do not compress). `settle` compacts everything, so that reads meet one
 * level.
 */
#include <leveldb/c.h>
#include <stdlib.h>

#include "peer.h"

struct store {
    leveldb_t *db;
    leveldb_options_t *options;
    leveldb_cache_t *cache;
    leveldb_filterpolicy_t *filter;
    leveldb_readoptions_t *read;
    leveldb_writeoptions_t *write, *load, *flush;
};

struct session {
    struct store *store;
    leveldb_writebatch_t *batch;
    char *value;
    char failure[PEER_TEXT_BYTES];
};

#include "loops.h"

/* Keeps the library's error text, which the caller of the C API owns. */
static const char *why(struct session *session, char *failed) {
    if (__builtin_expect(failed == NULL, 1)) return NULL;
    snprintf(session->failure, sizeof session->failure, "%s", failed);
    leveldb_free(failed);
    return session->failure;
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
    struct store *store = session->store;
    if (session->batch != NULL) {
        leveldb_writebatch_put(session->batch, (const char *)key.at, key.length, (const char *)value.at,
                 value.length);
        return NULL;
    }
    char *failed = NULL;
    leveldb_put(store->db, store->write, (const char *)key.at, key.length, (const char *)value.at,
                 value.length, &failed);
    return why(session, failed);
}

/* It deletes without a look, so that a record which is not there goes unnoticed: a scan counts what
 * is left. */
static const char *peer_remove(struct session *session, struct bytes key) {
    struct store *store = session->store;
    char *failed = NULL;
    leveldb_delete(store->db, store->write, (const char *)key.at, key.length, &failed);
    return why(session, failed);
}

static const char *peer_get(struct session *session, struct bytes key, const uint8_t **value,
                            size_t *length) {
    struct store *store = session->store;
    char *failed = NULL;
    session->value = leveldb_get(store->db, store->read, (const char *)key.at, key.length, length, &failed);
    *value = (const uint8_t *)session->value;
    if (failed != NULL) return why(session, failed);
    return session->value == NULL ? "not found" : NULL;
}

static void peer_release(struct session *session) { leveldb_free(session->value); }

static const char *peer_scan(struct session *session, struct scan *scan) {
    leveldb_iterator_t *at = leveldb_create_iterator(session->store->db, session->store->read);
    for (leveldb_iter_seek_to_first(at); leveldb_iter_valid(at); leveldb_iter_next(at)) {
        size_t key_length, value_length;
        const char *key = leveldb_iter_key(at, &key_length), *value = leveldb_iter_value(at, &value_length);
        scan_visit(scan, (const uint8_t *)key, key_length, (const uint8_t *)value, value_length);
    }
    char *failed = NULL;
    leveldb_iter_get_error(at, &failed);
    leveldb_iter_destroy(at);
    return why(session, failed);
}

static const char *peer_range(struct session *session, struct bytes from, uint32_t count,
                              struct range *range) {
    leveldb_iterator_t *at = leveldb_create_iterator(session->store->db, session->store->read);
    leveldb_iter_seek(at, (const char *)from.at, from.length);
    for (; range->visited < count && leveldb_iter_valid(at); leveldb_iter_next(at)) {
        size_t key_length, value_length;
        const char *key = leveldb_iter_key(at, &key_length), *value = leveldb_iter_value(at, &value_length);
        range_visit(range, (const uint8_t *)key, key_length, (const uint8_t *)value, value_length);
    }
    char *failed = NULL;
    leveldb_iter_get_error(at, &failed);
    leveldb_iter_destroy(at);
    return why(session, failed);
}

static const char *peer_modify(struct session *session, struct bytes key, struct change *change) {
    (void)session, (void)key, (void)change;
    return "it has no transactions that read";
}

static const char *peer_batch(struct session *session, int open) {
    if (open) {
        session->batch = leveldb_writebatch_create();
        return NULL;
    }
    char *failed = NULL;
    leveldb_write(session->store->db, session->store->load, session->batch, &failed);
    leveldb_writebatch_destroy(session->batch);
    session->batch = NULL;
    return why(session, failed);
}

static const char *version(void) {
    static char text[16];
    snprintf(text, sizeof text, "%d.%d", leveldb_major_version(), leveldb_minor_version());
    return text;
}

static const char *meaning(int mode) {
    switch (mode) {
        case MODE_DS: return "as WriteNoSync: the log cannot be switched off";
        case MODE_TDS: return "a get is a read of one version; writes as WriteNoSync";
        case MODE_MEMORY: return "as WriteNoSync: the log cannot be kept in memory";
        case MODE_NO_SYNC: return "as WriteNoSync: the log is not buffered";
        case MODE_WRITE_NO_SYNC: return "sync=false: a put is written to the OS";
        case MODE_BACKGROUND:
            return "as WriteNoSync; an empty batch with sync=true, which flushes the log, every 50 ms";
        case MODE_UNLOGGED: return "as WriteNoSync: its log cannot be switched off";
        case MODE_SYNC: return "sync=true: a put is flushed; group commit among threads";
    }
    return NULL;
}

static void free_store(struct store *store) {
    if (store->db != NULL) leveldb_close(store->db);
    leveldb_options_destroy(store->options);
    leveldb_cache_destroy(store->cache);
    leveldb_filterpolicy_destroy(store->filter);
    leveldb_readoptions_destroy(store->read);
    leveldb_writeoptions_destroy(store->write);
    leveldb_writeoptions_destroy(store->load);
    leveldb_writeoptions_destroy(store->flush);
    free(store);
}

static void *open_store(const struct peer_options *given, char *error) {
    struct store *store = calloc(1, sizeof *store);
    size_t memtable = given->cache_bytes / 4;
    if (memtable > 64u << 20) memtable = 64u << 20;
    if (memtable < 4u << 20) memtable = 4u << 20;
    leveldb_options_t *options = store->options = leveldb_options_create();
    store->cache = leveldb_cache_create_lru(given->cache_bytes);
    store->filter = leveldb_filterpolicy_create_bloom(10);
    store->read = leveldb_readoptions_create();
    store->write = leveldb_writeoptions_create();
    store->load = leveldb_writeoptions_create();
    store->flush = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(store->flush, 1);
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_cache(options, store->cache);
    leveldb_options_set_filter_policy(options, store->filter);
    leveldb_options_set_write_buffer_size(options, memtable);
    leveldb_options_set_compression(options, leveldb_no_compression);
    leveldb_options_set_max_file_size(options, 16u << 20);
    if (given->page_size != 0) leveldb_options_set_block_size(options, given->page_size);
    leveldb_writeoptions_set_sync(store->write, given->mode == MODE_SYNC);
    char *failed = NULL;
    store->db = leveldb_open(options, given->dir, &failed);
    if (failed == NULL) return store;
    snprintf(error, PEER_TEXT_BYTES, "open: %s", failed);
    leveldb_free(failed);
    free_store(store);
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
    (void)error;
    struct store *store = of;
    leveldb_compact_range(store->db, NULL, 0, NULL, 0);
    return 0;
}

/* It moves its memtables into files by itself. */
static int upkeep(void *of, int checkpoint, char *error) {
    struct store *store = of;
    char *failed = NULL;
    (void)checkpoint;
    leveldb_writebatch_t *nothing = leveldb_writebatch_create();
    leveldb_write(store->db, store->flush, nothing, &failed);
    leveldb_writebatch_destroy(nothing);
    if (failed == NULL) return 0;
    snprintf(error, PEER_TEXT_BYTES, "flush: %s", failed);
    leveldb_free(failed);
    return -1;
}

static int close_store(void *of, char *error) {
    (void)error;
    free_store(of);
    return 0;
}

const struct peer peer_leveldb = {version, meaning, open_store, new_session,
                                  loops_run, end_session, settle, upkeep, close_store};
