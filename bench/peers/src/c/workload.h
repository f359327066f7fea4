/* The workload in C: what src/workload.rs of the papers' crate specifies, for the loops to inline.
 *
 * A test compares every function here with its namesake there. Two things are C's alone: the little-endian
 * words are stored as they are (the workspace is for x86-64 and arm64), and a value is checked as four words
 * at once.
 */
#ifndef PEERS_WORKLOAD_H
#define PEERS_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the values are written as little-endian words"
#endif

enum { KEY_BYTES = 8, VALUE_BYTES = 32 };

/* The layout of Rust's `Order`, which makes the constants. */
struct workload_order {
    uint64_t runs, run, random, mask, shift, offset, multipliers[3];
};

/* Where a run stands. */
static inline uint64_t workload_place(const struct workload_order *order, uint64_t position) {
    uint64_t x = position;
    do {
        x = ((x + order->offset) * order->multipliers[0]) & order->mask;
        x ^= x >> order->shift;
        x = (x * order->multipliers[1]) & order->mask;
        x ^= x >> order->shift;
        x = (x * order->multipliers[2]) & order->mask;
        x ^= x >> order->shift;
    } while (x >= order->runs);
    return x;
}

static inline uint64_t workload_key(const struct workload_order *order, uint64_t position) {
    if (!order->random) return position;
    if (order->run == 1) return workload_place(order, position);
    return workload_place(order, position / order->run) * order->run + position % order->run;
}

static inline void workload_key_bytes(uint64_t key, uint8_t bytes[KEY_BYTES]) {
    key = __builtin_bswap64(key);
    memcpy(bytes, &key, sizeof key);
}

static inline uint64_t workload_key_number(const uint8_t *bytes) {
    uint64_t key;
    memcpy(&key, bytes, sizeof key);
    return __builtin_bswap64(key);
}

static inline void workload_words(uint64_t key, uint32_t version, uint64_t words[4]) {
    uint64_t base = (key ^ (uint64_t)version << 40) * UINT64_C(0xD6E8FEB86659FD93);
    base ^= base >> 32;
    words[0] = base;
    words[1] = base ^ UINT64_C(0xA0761D6478BD642F);
    words[2] = base ^ UINT64_C(0xE7037ED1A0B428DB);
    words[3] = base ^ UINT64_C(0x8EBC6AF09C88C6E3);
}

static inline void workload_value(uint64_t key, uint32_t version, uint8_t bytes[VALUE_BYTES]) {
    uint64_t words[4];
    workload_words(key, version, words);
    memcpy(bytes, words, sizeof words);
}

static inline int workload_is_value(uint64_t key, uint32_t version, const uint8_t *bytes, size_t length) {
    uint64_t expected[4], found[4];
    if (length != VALUE_BYTES) return 0;
    workload_words(key, version, expected);
    memcpy(found, bytes, sizeof found);
    return ((expected[0] ^ found[0]) | (expected[1] ^ found[1]) | (expected[2] ^ found[2]) |
            (expected[3] ^ found[3])) == 0;
}

#endif
