/* The C workload with external linkage, and the structs' sizes, for the tests that compare them with Rust's. */
#include "peer.h"

extern const size_t probe_sizes[4];
uint64_t probe_key(const struct workload_order *order, uint64_t position);
uint64_t probe_key_number(const uint8_t *bytes);
void probe_key_bytes(uint64_t key, uint8_t *bytes);
void probe_value(uint64_t key, uint32_t version, uint8_t *bytes);
int probe_is_value(uint64_t key, uint32_t version, const uint8_t *bytes, size_t length);

const size_t probe_sizes[4] = {sizeof(struct workload_order), sizeof(struct peer_options), sizeof(struct peer_job),
                               sizeof(struct peer_result)};

uint64_t probe_key(const struct workload_order *order, uint64_t position) { return workload_key(order, position); }
uint64_t probe_key_number(const uint8_t *bytes) { return workload_key_number(bytes); }
void probe_key_bytes(uint64_t key, uint8_t *bytes) { workload_key_bytes(key, bytes); }
void probe_value(uint64_t key, uint32_t version, uint8_t *bytes) { workload_value(key, version, bytes); }
int probe_is_value(uint64_t key, uint32_t version, const uint8_t *bytes, size_t length) {
    return workload_is_value(key, version, bytes, length);
}
