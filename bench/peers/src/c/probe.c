/* The C workload with external linkage, and the structs' sizes, for the tests that compare them with Rust's;
 * and the clock that the adapters read. */
#include "peer.h"

extern const size_t probe_sizes[6];
uint64_t probe_now_ns(void);
size_t probe_watch_bytes(void);
uint64_t probe_watch_bucket(uint64_t ns);
uint64_t probe_key(const struct workload_order *order, uint64_t position);
uint64_t probe_key_number(const uint8_t *bytes);
void probe_key_bytes(uint64_t key, uint8_t *bytes);
void probe_value(uint64_t key, uint32_t version, uint8_t *bytes);
int probe_is_value(uint64_t key, uint32_t version, const uint8_t *bytes, size_t length);
size_t probe_shape_key(const struct shape *shape, uint64_t number, uint8_t *bytes);
size_t probe_shape_value(const struct shape *shape, uint64_t number, uint32_t version, uint8_t *bytes);
int probe_shape_is_value(const struct shape *shape, uint64_t number, uint32_t version, const uint8_t *bytes,
                         size_t length);
uint64_t probe_shape_number(const struct shape *shape, const uint8_t *key, size_t key_length,
                            const uint8_t *value, size_t value_length);

const size_t probe_sizes[6] = {sizeof(struct workload_order), sizeof(struct peer_options),
                               sizeof(struct peer_job),       sizeof(struct peer_result),
                               sizeof(struct shape),          sizeof(struct act)};

uint64_t probe_key(const struct workload_order *order, uint64_t position) {
    return workload_key(order, position);
}
uint64_t probe_key_number(const uint8_t *bytes) { return workload_key_number(bytes); }
void probe_key_bytes(uint64_t key, uint8_t *bytes) { workload_key_bytes(key, bytes); }
void probe_value(uint64_t key, uint32_t version, uint8_t *bytes) { workload_value(key, version, bytes); }
int probe_is_value(uint64_t key, uint32_t version, const uint8_t *bytes, size_t length) {
    return workload_is_value(key, version, bytes, length);
}
size_t probe_shape_key(const struct shape *shape, uint64_t number, uint8_t *bytes) {
    return shape_key(shape, number, bytes).length;
}
size_t probe_shape_value(const struct shape *shape, uint64_t number, uint32_t version, uint8_t *bytes) {
    return shape_value(shape, number, version, bytes).length;
}
int probe_shape_is_value(const struct shape *shape, uint64_t number, uint32_t version, const uint8_t *bytes,
                         size_t length) {
    return shape_is_value(shape, number, version, bytes, length);
}
uint64_t probe_now_ns(void) { return peer_now_ns(); }
size_t probe_watch_bytes(void) { return sizeof(struct watch); }
uint64_t probe_watch_bucket(uint64_t ns) { return watch_bucket(ns); }
/* UINT64_MAX if they are no record's. */
uint64_t probe_shape_number(const struct shape *shape, const uint8_t *key, size_t key_length,
                            const uint8_t *value, size_t value_length) {
    uint64_t number;
    struct bytes k = {key, key_length}, v = {value, value_length};
    return shape_number(shape, k, v, &number) ? number : UINT64_MAX;
}
