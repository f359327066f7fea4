/* A watch on the single operations of a thread: each lasts from the end of the last one to its own.
 *
 * Times are counted in buckets that double every 128: exact below 128 ns, and to less than a hundredth above.
 * The layout is that of Rust's `Watch`.
 */
#ifndef PEERS_WATCH_H
#define PEERS_WATCH_H

#include <stdint.h>

enum { WATCH_BITS = 7, WATCH_BUCKETS = (41 - WATCH_BITS + 1) << WATCH_BITS };

struct watch {
    uint64_t counts[2][WATCH_BUCKETS]; /* of reads, and of what changes something */
    uint64_t longest_ns, longest_began_ns, longest_is_write;
};

/* The bucket of a time; all that are longer than half an hour share the last. */
static inline uint64_t watch_bucket(uint64_t ns) {
    if (ns < 1u << WATCH_BITS) return ns;
    uint64_t shift = 63 - (uint64_t)__builtin_clzll(ns) - WATCH_BITS;
    uint64_t bucket = ((shift + 1) << WATCH_BITS) + ((ns >> shift) & ((1u << WATCH_BITS) - 1));
    return bucket < WATCH_BUCKETS ? bucket : WATCH_BUCKETS - 1;
}

static inline void watch_count(struct watch *watch, uint64_t began_ns, uint64_t ended_ns, int is_write) {
    uint64_t ns = ended_ns - began_ns;
    watch->counts[is_write][watch_bucket(ns)]++;
    if (__builtin_expect(ns > watch->longest_ns, 0)) {
        watch->longest_ns = ns;
        watch->longest_began_ns = began_ns;
        watch->longest_is_write = (uint64_t)is_write;
    }
}

#endif
