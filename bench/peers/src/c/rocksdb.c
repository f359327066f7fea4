/* RocksDB 7, through rocksdb/c.h.
 *
 * Plain RocksDB, not its TransactionDB: one put is atomic and one get reads one version, which is all that a
 * transaction of one operation asks. The write-ahead log is off where the mode asks for no log (DS) or for
 * one that is lost with the process (Memory), buffered in the process for NoSync (manual_wal_flush), and
 * written per put else.
 *
 * Gets are pinned (no copy of the value). The memtable has a quarter of the cache, at most 64 MB, on top of
 * the block cache; Bloom filters of 10 bits; hash index inside data blocks; no compression (the values do not
 * compress). `settle` compacts everything, so that reads meet one level.
 */
#include <rocksdb/c.h>
#include <stdlib.h>

#include "peer.h"

struct store {
    rocksdb_t *db;
    rocksdb_optimistictransactiondb_t *transactions; /* NULL: opened without */
    rocksdb_optimistictransaction_options_t *transaction;
    rocksdb_options_t *options;
    rocksdb_cache_t *cache;
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write, *load;
};

struct session {
    struct store *store;
    rocksdb_writebatch_t *batch;
    rocksdb_pinnableslice_t *pinned;
    rocksdb_transaction_t *transaction; /* the last one, to be used again */
    char failure[PEER_TEXT_BYTES];
};

#include "loops.h"

/* Keeps the library's error text, which the caller of the C API owns. */
static const char *why(struct session *session, char *failed) {
    if (__builtin_expect(failed == NULL, 1)) return NULL;
    snprintf(session->failure, sizeof session->failure, "%s", failed);
    rocksdb_free(failed);
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
        rocksdb_writebatch_put(session->batch, (const char *)key.at, key.length, (const char *)value.at,
                 value.length);
        return NULL;
    }
    char *failed = NULL;
    rocksdb_put(store->db, store->write, (const char *)key.at, key.length, (const char *)value.at,
                 value.length, &failed);
    return why(session, failed);
}

/* It deletes without a look, so that a record which is not there goes unnoticed: a scan counts what
 * is left. */
static const char *peer_remove(struct session *session, struct bytes key) {
    struct store *store = session->store;
    char *failed = NULL;
    rocksdb_delete(store->db, store->write, (const char *)key.at, key.length, &failed);
    return why(session, failed);
}

static const char *peer_get(struct session *session, struct bytes key, const uint8_t **value,
                            size_t *length) {
    struct store *store = session->store;
    char *failed = NULL;
    session->pinned = rocksdb_get_pinned(store->db, store->read, (const char *)key.at, key.length, &failed);
    if (failed != NULL) return why(session, failed);
    if (session->pinned == NULL) return "not found";
    *value = (const uint8_t *)rocksdb_pinnableslice_value(session->pinned, length);
    return NULL;
}

static void peer_release(struct session *session) { rocksdb_pinnableslice_destroy(session->pinned); }

static const char *peer_scan(struct session *session, struct scan *scan) {
    rocksdb_iterator_t *at = rocksdb_create_iterator(session->store->db, session->store->read);
    for (rocksdb_iter_seek_to_first(at); rocksdb_iter_valid(at); rocksdb_iter_next(at)) {
        size_t key_length, value_length;
        const char *key = rocksdb_iter_key(at, &key_length), *value = rocksdb_iter_value(at, &value_length);
        scan_visit(scan, (const uint8_t *)key, key_length, (const uint8_t *)value, value_length);
    }
    char *failed = NULL;
    rocksdb_iter_get_error(at, &failed);
    rocksdb_iter_destroy(at);
    return why(session, failed);
}

static const char *peer_range(struct session *session, struct bytes from, uint32_t count,
                              struct range *range) {
    rocksdb_iterator_t *at = rocksdb_create_iterator(session->store->db, session->store->read);
    rocksdb_iter_seek(at, (const char *)from.at, from.length);
    for (; range->visited < count && rocksdb_iter_valid(at); rocksdb_iter_next(at)) {
        size_t key_length, value_length;
        const char *key = rocksdb_iter_key(at, &key_length), *value = rocksdb_iter_value(at, &value_length);
        range_visit(range, (const uint8_t *)key, key_length, (const uint8_t *)value, value_length);
    }
    char *failed = NULL;
    rocksdb_iter_get_error(at, &failed);
    rocksdb_iter_destroy(at);
    return why(session, failed);
}

/* Optimistic: nothing is locked, and who finds at the end that another has changed the record begins anew. */
static const char *peer_modify(struct session *session, struct bytes key, struct change *change) {
    struct store *store = session->store;
    if (store->transactions == NULL) return "it was opened without transactions";
    for (;;) {
        char *failed = NULL;
        size_t length = 0;
        session->transaction = rocksdb_optimistictransaction_begin(store->transactions, store->write,
                                                                   store->transaction, session->transaction);
        char *found = rocksdb_transaction_get_for_update(
            session->transaction, store->read, (const char *)key.at, key.length, &length, 1, &failed);
        if (failed != NULL) return why(session, failed);
        if (found == NULL) return "not found";
        struct bytes value = change_value(change, (const uint8_t *)found, length);
        rocksdb_free(found);
        rocksdb_transaction_put(session->transaction, (const char *)key.at, key.length,
                                (const char *)value.at, value.length, &failed);
        if (failed != NULL) return why(session, failed);
        rocksdb_transaction_commit(session->transaction, &failed);
        if (failed == NULL) return NULL;
        int again = strstr(failed, "busy") != NULL || strstr(failed, "again") != NULL;
        if (!again) return why(session, failed);
        rocksdb_free(failed);
    }
}

static const char *peer_batch(struct session *session, int open) {
    if (open) {
        session->batch = rocksdb_writebatch_create();
        return NULL;
    }
    char *failed = NULL;
    rocksdb_write(session->store->db, session->store->load, session->batch, &failed);
    rocksdb_writebatch_destroy(session->batch);
    session->batch = NULL;
    return why(session, failed);
}

/* The library tells its version to C++ only; the build script reads it from the header. */
static const char *version(void) { return ROCKSDB_VERSION; }

static const char *meaning(int mode) {
    switch (mode) {
        case MODE_DS: return "write-ahead log off";
        case MODE_TDS: return "a get is a read of one version; writes as NoSync";
        case MODE_MEMORY: return "write-ahead log off: a put is atomic in the memtable without one";
        case MODE_NO_SYNC: return "manual_wal_flush: the log stays in the process's buffer";
        case MODE_WRITE_NO_SYNC: return "sync=false: a put is written to the OS";
        case MODE_BACKGROUND: return "manual_wal_flush, and FlushWAL(sync=true) every 50 ms";
        case MODE_UNLOGGED: return "write-ahead log off";
        case MODE_SYNC: return "sync=true: a put is flushed; group commit among threads";
    }
    return NULL;
}

static void free_store(struct store *store) {
    if (store->transactions != NULL) {
        rocksdb_optimistictransactiondb_close_base_db(store->db);
        rocksdb_optimistictransactiondb_close(store->transactions);
    } else if (store->db != NULL) {
        rocksdb_close(store->db);
    }
    rocksdb_optimistictransaction_options_destroy(store->transaction);
    rocksdb_options_destroy(store->options);
    rocksdb_cache_destroy(store->cache);
    rocksdb_readoptions_destroy(store->read);
    rocksdb_writeoptions_destroy(store->write);
    rocksdb_writeoptions_destroy(store->load);
    free(store);
}

static void *open_store(const struct peer_options *given, char *error) {
    struct store *store = calloc(1, sizeof *store);
    size_t memtable = given->cache_bytes / 4;
    if (memtable > 64u << 20) memtable = 64u << 20;
    if (memtable < 4u << 20) memtable = 4u << 20;
    rocksdb_options_t *options = store->options = rocksdb_options_create();
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    store->cache = rocksdb_cache_create_lru(given->cache_bytes);
    store->read = rocksdb_readoptions_create();
    store->write = rocksdb_writeoptions_create();
    store->load = rocksdb_writeoptions_create();

    rocksdb_block_based_options_set_block_cache(table, store->cache);
    rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_block_based_options_set_data_block_index_type(
        table, rocksdb_block_based_table_data_block_index_type_binary_search_and_hash);
    rocksdb_block_based_options_set_format_version(table, 5);
    if (given->page_size != 0) rocksdb_block_based_options_set_block_size(table, given->page_size);
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_block_based_options_destroy(table);

    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    rocksdb_options_set_write_buffer_size(options, memtable);
    rocksdb_options_increase_parallelism(options, 2);
    rocksdb_options_set_manual_wal_flush(options, given->mode == MODE_NO_SYNC || given->mode == MODE_TDS ||
                                                     given->mode == MODE_BACKGROUND);
    rocksdb_options_set_use_direct_reads(options, given->direct != 0);
    rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, given->direct != 0);
    /* Concurrent inserts into the memtable cost a lone writer something and bring it nothing. */
    rocksdb_options_set_allow_concurrent_memtable_write(options, given->threads > 1);
    /* A recycled log is overwritten, which makes its flushes cheaper. */
    rocksdb_options_set_recycle_log_file_num(options, given->mode == MODE_SYNC ? 4 : 0);
    rocksdb_writeoptions_set_sync(store->write, given->mode == MODE_SYNC);
    rocksdb_writeoptions_disable_WAL(store->write, given->mode == MODE_DS || given->mode == MODE_MEMORY ||
                                                      given->mode == MODE_UNLOGGED);
    rocksdb_writeoptions_disable_WAL(store->load, given->mode != MODE_SYNC);
    char *failed = NULL;
    store->transaction = rocksdb_optimistictransaction_options_create();
    if (given->transactions) {
        store->transactions = rocksdb_optimistictransactiondb_open(options, given->dir, &failed);
        if (failed == NULL) store->db = rocksdb_optimistictransactiondb_get_base_db(store->transactions);
    } else {
        store->db = rocksdb_open(options, given->dir, &failed);
    }
    if (failed == NULL) return store;
    snprintf(error, PEER_TEXT_BYTES, "open: %s", failed);
    rocksdb_free(failed);
    free_store(store);
    return NULL;
}

static void *new_session(void *of, char *error) {
    (void)error;
    struct session *session = calloc(1, sizeof *session);
    session->store = of;
    return session;
}

static void end_session(void *of) {
    struct session *session = of;
    if (session->transaction != NULL) rocksdb_transaction_destroy(session->transaction);
    free(session);
}

static int settle(void *of, char *error) {
    (void)error;
    struct store *store = of;
    rocksdb_compact_range(store->db, NULL, 0, NULL, 0);
    return 0;
}

/* It moves its memtables into files by itself. */
static int upkeep(void *of, int checkpoint, char *error) {
    struct store *store = of;
    char *failed = NULL;
    (void)checkpoint;
    rocksdb_flush_wal(store->db, 1, &failed);
    if (failed == NULL) return 0;
    snprintf(error, PEER_TEXT_BYTES, "flush: %s", failed);
    rocksdb_free(failed);
    return -1;
}

static int close_store(void *of, char *error) {
    struct store *store = of;
    char *failed = NULL;
    rocksdb_flush_wal(store->db, 1, &failed);
    free_store(store);
    if (failed == NULL) return 0;
    snprintf(error, PEER_TEXT_BYTES, "close: %s", failed);
    rocksdb_free(failed);
    return -1;
}

const struct peer peer_rocksdb = {version, meaning, open_store, new_session,
                                  loops_run, end_session, settle, upkeep, close_store};
