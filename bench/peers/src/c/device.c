/* The device itself, as a system whose only operation is to make 4 KB durable: the bound of every synchronous
 * commit.
 *
 * A file is written beforehand and flushed, so that overwriting it allocates nothing. A run of writes or
 * updates then overwrites block after block around the file, in two ways for half of the time (or of the
 * operations) each: O_DIRECT and fdatasync after every write, and O_DIRECT with O_DSYNC. The faster one is
 * the answer, and the note says which. Where O_DIRECT is refused (tmpfs) the writes go through the page
 * cache. Sync mode and one thread only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "peer.h"

enum { BLOCK_BYTES = 4096, BLOCKS = 4096 };

struct store {
    char path[4096];
};

struct session {
    struct store *store;
    uint8_t *block;
};

static const char *version(void) { return "4096-byte overwrites"; }

static const char *meaning(int mode) {
    return mode == MODE_SYNC ? "O_DIRECT overwrite and fdatasync, or O_DSYNC: the better one" : NULL;
}

static int refuse(char *error, const char *what) {
    snprintf(error, PEER_TEXT_BYTES, "%s: %s", what, strerror(errno));
    return -1;
}

static int open_file(const struct store *store, int flags) {
    int file = open(store->path, O_RDWR | O_CREAT | O_DIRECT | flags, 0644);
    return file < 0 && errno == EINVAL ? open(store->path, O_RDWR | O_CREAT | flags, 0644) : file;
}

static uint8_t *new_block(void) {
    uint8_t *block = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
    memset(block, 0xA5, BLOCK_BYTES);
    return block;
}

static int overwrite(int file, const uint8_t *block, uint64_t at) {
    return pwrite(file, block, BLOCK_BYTES, (off_t)(at % BLOCKS * BLOCK_BYTES)) == BLOCK_BYTES ? 0 : -1;
}

static void *open_store(const struct peer_options *options, char *error) {
    struct store *store = calloc(1, sizeof *store);
    snprintf(store->path, sizeof store->path, "%s/overwrite", options->dir);
    int file = open_file(store, 0), failed = file < 0;
    uint8_t *block = new_block();
    for (uint64_t at = 0; !failed && at < BLOCKS; at++) failed = overwrite(file, block, at);
    if (!failed) failed = fsync(file);
    if (failed) refuse(error, "overwrite file");
    if (file >= 0) close(file);
    free(block);
    if (!failed) return store;
    free(store);
    return NULL;
}

static void *new_session(void *of, char *error) {
    (void)error;
    struct session *session = calloc(1, sizeof *session);
    session->store = of;
    session->block = new_block();
    return session;
}

static void end_session(void *of) {
    struct session *session = of;
    free(session->block);
    free(session);
}

/* One way of overwriting, for its half of the job. */
static void overwrite_for(struct session *session, const struct peer_job *job, struct peer_result *result,
                          int flags) {
    uint64_t half = (job->end - job->first + 1) / 2;
    int file = open_file(session->store, flags);
    result->started_ns = peer_now_ns();
    while (file >= 0 && result->ops < half) {
        session->block[0]++;
        int failed = overwrite(file, session->block, result->ops);
        if (failed == 0 && flags == 0) failed = fdatasync(file);
        if (failed != 0) peer_fail(result, "overwrite", result->ops, strerror(errno));
        result->ops++;
        if (job->seconds_max > 0 && (double)(peer_now_ns() - result->started_ns) > job->seconds_max * 1e9 / 2)
            break;
    }
    result->ended_ns = peer_now_ns();
    if (file < 0) peer_fail(result, "open", 0, strerror(errno));
    else close(file);
}

static double per_ns(const struct peer_result *result) {
    return (double)result->ops / (double)(result->ended_ns - result->started_ns + 1);
}

static void run(void *session, const struct peer_job *job, struct peer_result *result) {
    struct peer_result flushed = {0}, synchronous = {0};
    if (job->kind != KIND_WRITE && job->kind != KIND_UPDATE) {
        peer_fail(result, "run", 0, "the device can only be overwritten");
        return;
    }
    overwrite_for(session, job, &flushed, 0);
    overwrite_for(session, job, &synchronous, O_DSYNC);
    *result = per_ns(&flushed) > per_ns(&synchronous) ? flushed : synchronous;
    snprintf(result->note, sizeof result->note, "fdatasync %.0f/s, O_DSYNC %.0f/s", per_ns(&flushed) * 1e9,
             per_ns(&synchronous) * 1e9);
}

static int nothing_to_do(void *store, char *error) {
    (void)store, (void)error;
    return 0;
}

static int close_store(void *of, char *error) {
    (void)error;
    free(of);
    return 0;
}

const struct peer peer_device = {version, meaning,     open_store,    new_session,
                                 run,     end_session, nothing_to_do, NULL,
                                 close_store};
