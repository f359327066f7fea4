/* What a peer is to the harness: one table of functions per system, filled in by its adapter (bdb.c, lmdb.c,
 * …).
 *
 *   store    an open database environment; opened and closed by one thread
 *   session  what one thread works with: its handles, cursors, prepared statements; used by that thread only
 *   job      one thread's share of a run, executed whole inside the adapter by `run`
 *
 * The loop over the records is C, compiled into each adapter by loops.h, so the compiler sees the workload,
 * the loop and the adapter's calls together: what is timed is the system's own functions and nothing that
 * another system would not have to pay. The clock is read around the loop only; opening, closing, warming and
 * settling lie outside of it.
 *
 * Failures are of two kinds. Opening, settling and closing return an error text. Operations inside a run
 * count their failures, keep the first one's text, and go on.
 */
#ifndef PEERS_PEER_H
#define PEERS_PEER_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "shape.h"
#include "watch.h"

enum { PEER_TEXT_BYTES = 240 };

/* The last two: commits stay in the process, and `upkeep` makes them durable; nothing is logged, and sessions
 * work side by side all the same. */
enum peer_mode {
    MODE_DS,
    MODE_TDS,
    MODE_MEMORY,
    MODE_NO_SYNC,
    MODE_WRITE_NO_SYNC,
    MODE_SYNC,
    MODE_BACKGROUND,
    MODE_UNLOGGED
};

enum peer_kind { KIND_LOAD, KIND_WRITE, KIND_UPDATE, KIND_READ, KIND_BULK, KIND_TAKE, KIND_DELETE, KIND_MIX };

enum { ACT_READ, ACT_UPDATE, ACT_INSERT, ACT_SCAN, ACT_MODIFY };

/* What is done next in a mix. The layout of Rust's `Act`, which makes them. */
struct act {
    uint64_t number;
    uint32_t what;
    uint32_t count;  /* the version of a value that is written, or how many records a scan visits */
};

struct peer_options {
    const char *dir;      /* exists */
    uint64_t cache_bytes;
    uint64_t log_buffer;  /* bytes; what a system makes of it is its adapter's to say */
    uint32_t page_size;   /* 0: the adapter's choice */
    uint32_t threads;     /* the most sessions that will be open at once */
    int32_t mode;         /* enum peer_mode */
    int32_t transactions; /* operations will be put together to transactions */
    int32_t direct;       /* without the operating system's cache, where the system can do that */
};

struct peer_job {
    struct workload_order order;
    struct shape shape;
    uint64_t records, present; /* how many records there are when all are there, and how many are */
    const struct act *acts;    /* of a mix: all that this thread does */
    uint64_t acts_count;
    struct watch *watch;       /* of a mix: what times each act; NULL: nothing does */
    uint64_t first, end;       /* positions of this thread */
    double seconds_max;        /* the loop ends early after so long; 0: never */
    uint64_t check_every;      /* operations between looks at the clock; a power of two */
    uint32_t version;          /* of the values to write, or to expect */
    uint32_t passes;           /* how often read and bulk go over their share */
    int32_t kind;              /* enum peer_kind */
    int32_t whole;             /* of a mix: a lookup and the update after it are one transaction */
    int32_t cursor;            /* DS: use a cursor kept open, where get and put are calls of their own */
};

struct peer_result {
    uint64_t ops, errors;
    uint64_t inserted;                  /* records that a mix has added */
    uint64_t started_ns, ended_ns;      /* CLOCK_MONOTONIC, around the loop */
    char first_error[PEER_TEXT_BYTES];  /* "" when errors == 0 */
    char note[PEER_TEXT_BYTES];         /* "" or something to tell about the run */
};

struct peer {
    const char *(*version)(void);
    /* What a mode means in this system, in one line; NULL: it has none like it. */
    const char *(*meaning)(int mode);
    /* NULL and an error text, or a store. The directory is empty, or holds what `close` left there in this
     * mode. */
    void *(*open)(const struct peer_options *options, char *error);
    void *(*session)(void *store, char *error);
    void (*run)(void *session, const struct peer_job *job, struct peer_result *result);
    void (*end_session)(void *session);
    /* After a load, untimed: bring the store into the shape in which it likes to be read. 0, or an error
     * text. */
    int (*settle)(void *store, char *error);
    /* Called by one thread beside the sessions' (with two threads announced at least, and not in MODE_DS):
     * makes durable what has been committed, or, as a `checkpoint`, brings what the log has to where it
     * belongs. A system that does the latter by itself whenever it is due only does the former. 0, or an
     * error text. NULL: it has nothing like it. */
    int (*upkeep)(void *store, int checkpoint, char *error);
    /* A clean shutdown: all durable, logs that are no longer needed removed where the system does that. */
    int (*close)(void *store, char *error);
};

static inline uint64_t peer_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Counts a failed operation of a run; the first one's text is kept. */
static __attribute__((cold, noinline, unused)) void peer_fail(struct peer_result *result, const char *what,
                                                              uint64_t key, const char *why) {
    if (result->errors++ == 0)
        snprintf(result->first_error, sizeof result->first_error, "%s of key %llu: %s", what,
                 (unsigned long long)key, why);
}

#endif
