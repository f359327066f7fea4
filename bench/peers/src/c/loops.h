/* The timed loops, for an adapter to include after it has defined `struct session` and these static
 * functions:
 *
 *   const char *peer_begin(struct session *, const struct peer_job *)
 *                                              before a run's first operation, timed
 *   const char *peer_end(struct session *, const struct peer_job *)
 *                                              after its last one, timed (a commit, say)
 *   const char *peer_put(struct session *, struct bytes key, struct bytes value, int exists)
 *   const char *peer_remove(struct session *, struct bytes key)
 *                                              a failure if it can tell that there was none
 *   const char *peer_get(struct session *, struct bytes key, const uint8_t **value, size_t *length)
 *   void peer_release(struct session *)        done with what peer_get has returned
 *   const char *peer_scan(struct session *, struct scan *)
 *                                              calls scan_visit for every record, in any order
 *   const char *peer_range(struct session *, struct bytes from, uint32_t count, struct range *)
 *                                              calls range_visit for so many records from a key on, in order
 *   const char *peer_modify(struct session *, struct bytes key, struct change *)
 *                                              puts what change_value makes of what is there, in one
 *                                              transaction
 *   const char *peer_batch(struct session *, int open)
 *                                              opens / commits a batch of puts while loading
 *
 * One that serves a queue defines PEER_TAKES, and besides
 *
 *   const char *peer_take(struct session *, const uint8_t **value, size_t *length)   takes the first record
 *
 * Each returns NULL or why it failed. `exists` says that the record is there already (an update).
 */
#ifndef PEERS_LOOPS_H
#define PEERS_LOOPS_H

#include "peer.h"

/* Records that a load puts into one batch. */
enum { LOAD_BATCH = 1000 };

/* A scan under way: it adds up what it is shown, so that what it was not shown is missed. */
struct scan {
    struct peer_result *result;
    struct shape shape;
    uint64_t visited, key_sum;
    uint32_t version;
};

static inline void scan_visit(struct scan *scan, const uint8_t *key, size_t key_length, const uint8_t *value,
                              size_t value_length) {
    scan->visited++;
    uint64_t number;
    struct bytes k = {key, key_length}, v = {value, value_length};
    if (__builtin_expect(!shape_number(&scan->shape, k, v, &number), 0)) {
        peer_fail(scan->result, "scan", scan->visited, "a key that is no record's");
        return;
    }
    scan->key_sum += number;
    if (__builtin_expect(!shape_is_value(&scan->shape, number, scan->version, value, value_length), 0))
        peer_fail(scan->result, "scan", number, "not the value that was stored");
}

/* A short scan under way: it begins with the record that it was asked to begin with, and shows
 * records only. */
struct range {
    const struct shape *shape;
    uint64_t first;
    uint32_t visited, wrong;
};

static inline void range_visit(struct range *range, const uint8_t *key, size_t key_length,
                               const uint8_t *value, size_t value_length) {
    uint64_t number;
    struct bytes k = {key, key_length}, v = {value, value_length};
    int right = shape_number(range->shape, k, v, &number) &&
                shape_is_value(range->shape, number, ANY_VERSION, value, value_length) &&
                (range->visited > 0 || number == range->first);
    range->visited++;
    range->wrong += !right;
}

/* A record under way from one value to the next. */
struct change {
    const struct shape *shape;
    const struct act *act;
    int wrong;
    uint8_t value[VALUE_BYTES_MAX];
};

/* What takes the place of what was found; asked again if the transaction has to begin anew. */
static inline __attribute__((unused)) struct bytes change_value(struct change *change, const uint8_t *found,
                                                                size_t length) {
    change->wrong = !shape_is_value(change->shape, change->act->number, ANY_VERSION, found, length);
    return shape_value(change->shape, change->act->number, change->act->count, change->value);
}

static const char *peer_begin(struct session *, const struct peer_job *);
static const char *peer_end(struct session *, const struct peer_job *);
static const char *peer_put(struct session *, struct bytes key, struct bytes value, int exists);
static const char *peer_remove(struct session *, struct bytes key);
static const char *peer_get(struct session *, struct bytes key, const uint8_t **value, size_t *length);
static void peer_release(struct session *);
static const char *peer_scan(struct session *, struct scan *);
static const char *peer_range(struct session *, struct bytes from, uint32_t count, struct range *);
static const char *peer_modify(struct session *, struct bytes key, struct change *);
static const char *peer_batch(struct session *, int open);
#ifdef PEER_TAKES
static const char *peer_take(struct session *, const uint8_t **value, size_t *length);
#endif

/* Whether the time is up; looks at the clock every so many operations. */
static inline int loops_late(const struct peer_job *job, const struct peer_result *result, uint64_t done) {
    return job->seconds_max > 0 && (done & (job->check_every - 1)) == 0 &&
           (double)(peer_now_ns() - result->started_ns) > job->seconds_max * 1e9;
}

static void loops_load(struct session *session, const struct peer_job *job, struct peer_result *result) {
    uint8_t key[KEY_BYTES_MAX], value[VALUE_BYTES_MAX];
    const char *why;
    for (uint64_t position = job->first; position < job->end;) {
        uint64_t stop = job->end - position > LOAD_BATCH ? position + LOAD_BATCH : job->end;
        if ((why = peer_batch(session, 1)) != NULL) peer_fail(result, "load batch", position, why);
        for (; position < stop; position++) {
            uint64_t number = workload_key(&job->order, position);
            struct bytes k = shape_key(&job->shape, number, key);
            struct bytes v = shape_value(&job->shape, number, job->version, value);
            if ((why = peer_put(session, k, v, 0)) != NULL) peer_fail(result, "load", number, why);
        }
        if ((why = peer_batch(session, 0)) != NULL) peer_fail(result, "load batch", position, why);
    }
    result->ops = job->end - job->first;
}

static inline void loops_put(struct session *session, const struct peer_job *job, struct peer_result *result,
                             const char *what, int exists) {
    uint8_t key[KEY_BYTES_MAX], value[VALUE_BYTES_MAX];
    const char *why;
    for (uint64_t position = job->first; position < job->end; position++) {
        uint64_t number = workload_key(&job->order, position);
        struct bytes k = shape_key(&job->shape, number, key);
        struct bytes v = shape_value(&job->shape, number, job->version, value);
        if (__builtin_expect((why = peer_put(session, k, v, exists)) != NULL, 0))
            peer_fail(result, what, number, why);
        if (loops_late(job, result, ++result->ops)) break;
    }
}

static void loops_read(struct session *session, const struct peer_job *job, struct peer_result *result) {
    uint8_t key[KEY_BYTES_MAX];
    const uint8_t *value = NULL;
    size_t length = 0;
    const char *why;
    for (uint32_t pass = 0; pass < job->passes; pass++) {
        for (uint64_t position = job->first; position < job->end; position++) {
            uint64_t number = workload_key(&job->order, position);
            struct bytes k = shape_key(&job->shape, number, key);
            if (__builtin_expect((why = peer_get(session, k, &value, &length)) != NULL, 0)) {
                peer_fail(result, "read", number, why);
            } else {
                if (__builtin_expect(!shape_is_value(&job->shape, number, job->version, value, length), 0))
                    peer_fail(result, "read", number, "not the value that was stored");
                peer_release(session);
            }
            if (loops_late(job, result, ++result->ops)) return;
        }
    }
}

static void loops_delete(struct session *session, const struct peer_job *job, struct peer_result *result) {
    uint8_t key[KEY_BYTES_MAX];
    const char *why;
    for (uint64_t position = job->first; position < job->end; position++) {
        uint64_t number = workload_key(&job->order, position);
        if (__builtin_expect((why = peer_remove(session, shape_key(&job->shape, number, key))) != NULL, 0))
            peer_fail(result, "delete", number, why);
        if (loops_late(job, result, ++result->ops)) return;
    }
}

static void loops_bulk(struct session *session, const struct peer_job *job, struct peer_result *result) {
    uint64_t records = job->records;
    uint64_t key_sum = records % 2 == 0 ? records / 2 * (records - 1) : (records - 1) / 2 * records;
    for (uint32_t pass = 0; pass < job->passes; pass++) {
        struct scan scan = {.result = result, .shape = job->shape, .version = job->version};
        const char *why = peer_scan(session, &scan);
        if (why != NULL) peer_fail(result, "scan", scan.visited, why);
        result->ops += scan.visited;
        if (scan.visited != job->present)
            peer_fail(result, "scan", scan.visited,
                      "this many records were seen, which is not how many there are");
        else if (scan.visited == records && scan.key_sum != key_sum)
            peer_fail(result, "scan", scan.visited, "a key came twice, another not at all");
        if (loops_late(job, result, 0)) return;
    }
}

static void loops_take(struct session *session, const struct peer_job *job, struct peer_result *result) {
#ifdef PEER_TAKES
    const uint8_t *value = NULL;
    size_t length = 0;
    const char *why;
    for (uint64_t position = job->first; position < job->end; position++) {
        uint64_t number = workload_key(&job->order, position);
        if (__builtin_expect((why = peer_take(session, &value, &length)) != NULL, 0))
            peer_fail(result, "take", number, why);
        else if (__builtin_expect(!workload_is_value(number, job->version, value, length), 0))
            peer_fail(result, "take", number, "not the record that comes next");
        if (loops_late(job, result, ++result->ops)) return;
    }
#else
    (void)session, (void)job;
    peer_fail(result, "take", 0, "it is no queue");
#endif
}

static const char *loops_range(struct session *session, const struct peer_job *job, const struct act *act,
                               struct bytes key) {
    struct range range = {.shape = &job->shape, .first = act->number};
    const char *why = peer_range(session, key, act->count, &range);
    if (why != NULL) return why;
    if (range.wrong > 0) return "not a record that was stored, or not the first";
    return range.visited > 0 ? NULL : "it shows nothing";
}

static const char *loops_modify(struct session *session, const struct peer_job *job, const struct act *act,
                                struct bytes key) {
    struct change change = {.shape = &job->shape, .act = act};
    const char *why = peer_modify(session, key, &change);
    return why == NULL && change.wrong ? "not a value that was stored" : why;
}

static void loops_mix(struct session *session, const struct peer_job *job, struct peer_result *result) {
    uint8_t key[KEY_BYTES_MAX], buffer[VALUE_BYTES_MAX];
    const uint8_t *value = NULL;
    size_t length = 0;
    const char *why;
    uint64_t began = result->started_ns;
    for (const struct act *act = job->acts, *end = act + job->acts_count; act < end; act++) {
        struct bytes k = shape_key(&job->shape, act->number, key);
        int whole = job->whole && act->what == ACT_MODIFY;
        if (whole && __builtin_expect((why = loops_modify(session, job, act, k)) != NULL, 0))
            peer_fail(result, "modify", act->number, why);
        if (!whole && (act->what == ACT_READ || act->what == ACT_MODIFY)) {
            if (__builtin_expect((why = peer_get(session, k, &value, &length)) != NULL, 0)) {
                peer_fail(result, "read", act->number, why);
            } else {
                int right = shape_is_value(&job->shape, act->number, ANY_VERSION, value, length);
                if (__builtin_expect(!right, 0))
                    peer_fail(result, "read", act->number, "not a value that was stored");
                peer_release(session);
            }
        }
        if (!whole && (act->what == ACT_UPDATE || act->what == ACT_INSERT || act->what == ACT_MODIFY)) {
            struct bytes v = shape_value(&job->shape, act->number, act->count, buffer);
            if (__builtin_expect((why = peer_put(session, k, v, act->what != ACT_INSERT)) != NULL, 0))
                peer_fail(result, "write", act->number, why);
            else
                result->inserted += act->what == ACT_INSERT;
        }
        if (act->what == ACT_SCAN && (why = loops_range(session, job, act, k)) != NULL)
            peer_fail(result, "scan", act->number, why);
        if (job->watch != NULL) {
            uint64_t ended = peer_now_ns();
            watch_count(job->watch, began, ended, act->what != ACT_READ && act->what != ACT_SCAN);
            began = ended;
        }
        if (loops_late(job, result, ++result->ops)) return;
    }
}

static void loops_run(void *session, const struct peer_job *job, struct peer_result *result) {
    const char *why;
    result->started_ns = peer_now_ns();
    if ((why = peer_begin(session, job)) != NULL) peer_fail(result, "begin", 0, why);
    switch (job->kind) {
        case KIND_LOAD: loops_load(session, job, result); break;
        case KIND_WRITE: loops_put(session, job, result, "write", 0); break;
        case KIND_UPDATE: loops_put(session, job, result, "update", 1); break;
        case KIND_READ: loops_read(session, job, result); break;
        case KIND_BULK: loops_bulk(session, job, result); break;
        case KIND_TAKE: loops_take(session, job, result); break;
        case KIND_DELETE: loops_delete(session, job, result); break;
        case KIND_MIX: loops_mix(session, job, result); break;
    }
    if ((why = peer_end(session, job)) != NULL) peer_fail(result, "end", 0, why);
    result->ended_ns = peer_now_ns();
}

#endif
