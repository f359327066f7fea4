/* What records look like, in C: what shape.rs of the papers' crate specifies, compared with it by a test. */
#ifndef PEERS_SHAPE_H
#define PEERS_SHAPE_H

#include "workload.h"

enum { KEY_BYTES_MAX = 64, VALUE_BYTES_MAX = 4096, SHAPE_NUMBER_BITS = 40 };

#define ANY_VERSION UINT32_MAX
#define SHAPE_GOLDEN UINT64_C(0x9E3779B97F4A7C15)

/* The layout of Rust's `Shape`. */
struct shape {
    uint32_t key_bytes, value_bytes_min, value_bytes_max, scattered;
};

/* A key or a value. */
struct bytes {
    const uint8_t *at;
    size_t length;
};

static inline int shape_is_plain(const struct shape *shape) { return shape->key_bytes == KEY_BYTES; }

static inline uint64_t shape_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline uint64_t shape_word(uint64_t base, uint64_t i) { return base ^ SHAPE_GOLDEN * i; }

static inline size_t shape_length(const struct shape *shape, uint64_t base) {
    return shape->value_bytes_min + base % (shape->value_bytes_max - shape->value_bytes_min + UINT64_C(1));
}

static inline struct bytes shape_key(const struct shape *shape, uint64_t number,
                                     uint8_t bytes[KEY_BYTES_MAX]) {
    if (shape_is_plain(shape)) {
        workload_key_bytes(number, bytes);
        return (struct bytes){bytes, KEY_BYTES};
    }
    if (!shape->scattered) {
        memset(bytes, 0, KEY_BYTES_MAX);
        workload_key_bytes(number, bytes);
    } else {
        for (uint64_t i = 0; i < KEY_BYTES_MAX / 8; i++) {
            uint64_t word = shape_mix(number + SHAPE_GOLDEN * i);
            memcpy(bytes + 8 * i, &word, sizeof word);
        }
    }
    return (struct bytes){bytes, shape->key_bytes};
}

static inline struct bytes shape_value(const struct shape *shape, uint64_t number, uint32_t version,
                                       uint8_t bytes[VALUE_BYTES_MAX]) {
    if (shape_is_plain(shape)) {
        workload_value(number, version, bytes);
        return (struct bytes){bytes, VALUE_BYTES};
    }
    uint64_t first = number | (uint64_t)version << SHAPE_NUMBER_BITS, base = shape_mix(first);
    size_t length = shape_length(shape, base);
    memcpy(bytes, &first, sizeof first);
    for (uint64_t i = 1; i < (length + 7) / 8; i++) {
        uint64_t word = shape_word(base, i);
        memcpy(bytes + 8 * i, &word, sizeof word);
    }
    return (struct bytes){bytes, length};
}

static inline int shape_is_value(const struct shape *shape, uint64_t number, uint32_t version,
                                 const uint8_t *bytes, size_t length) {
    if (shape_is_plain(shape)) return workload_is_value(number, version, bytes, length);
    uint64_t first, differ = 0, i;
    if (length < sizeof first) return 0;
    memcpy(&first, bytes, sizeof first);
    if ((first & ((UINT64_C(1) << SHAPE_NUMBER_BITS) - 1)) != number) return 0;
    if (version != ANY_VERSION && first >> SHAPE_NUMBER_BITS != version) return 0;
    uint64_t base = shape_mix(first);
    if (length != shape_length(shape, base)) return 0;
    for (i = 1; i < length / 8; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * i, sizeof word);
        differ |= word ^ shape_word(base, i);
    }
    uint64_t last = shape_word(base, i);
    return differ == 0 && memcmp(&last, bytes + 8 * i, length % 8) == 0;
}

/* The number of the record that a key and a value were found as, in `number`; 0 if they are no record's. */
static inline int shape_number(const struct shape *shape, struct bytes key, struct bytes value,
                               uint64_t *number) {
    if (key.length != shape->key_bytes) return 0;
    if (shape_is_plain(shape)) {
        *number = workload_key_number(key.at);
        return 1;
    }
    uint8_t bytes[KEY_BYTES_MAX];
    if (value.length < sizeof *number) return 0;
    memcpy(number, value.at, sizeof *number);
    *number &= (UINT64_C(1) << SHAPE_NUMBER_BITS) - 1;
    return memcmp(shape_key(shape, *number, bytes).at, key.at, key.length) == 0;
}

#endif
