// Attention backward in bf16 for long sequences: as attention_backward_long.cu (dQ and delta by one kernel, dK and dV by
// another), tiled as in attention_tiled_forward.cu. Operands of a whole block stay in registers; weights and their
// gradients go from product to product in registers. No sum is shared by several blocks, so no order has to be kept.

#define THREADS 128

// Reads the left operands of TILES·16 rows of a warp from a tile that the block has staged.
#define LOAD_LEFT(TO, TILE)                                                                                                \
    _Pragma("unroll") for (int tile = 0; tile < TILES; tile++) {                                                           \
        load_left<D>(TO[tile], TILE + (warp * OWN + tile * 16) * STRIDE);                                                  \
    }

// ---- dQ. Grid: batch · n_heads, tiles of queries. Shared memory: tiles of queries and dO, which the two tiles of keys
// and of values overwrite if they fit (the host asks for the larger). ----

// Overwrites dP with dS / scale for two queries of the thread, given their scores.
template <int KEYS>
__device__ __forceinline__ void differentiate(const float (&scores)[KEYS / 8][4], float (&gradient)[KEYS / 8][4], float scale,
                                              const float (&logsumexp)[2], const float (&delta)[2]) {
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) {
        const float weight = power_of_two(fmaf(scores[i / 4][i % 4], scale, -logsumexp[i / 2 % 2]));
        gradient[i / 4][i % 4] = weight * (gradient[i / 4][i % 4] - delta[i / 2 % 2]);
    }
}

template <int D, int KEYS, int TILES>
__device__ __forceinline__ void differentiate_queries(const Band &a, Rows<const bf16> query, Rows<const bf16> key,
                                                      Rows<const bf16> value, const bf16 *out, const bf16 *d_out,
                                                      const float *logsumexp, float *delta, Rows<bf16> d_query) {
    // Keys of a tile are multiplied 32 at a time, so that sums fit into registers.
    constexpr int STRIDE = D + TILE_PADDING, OWN = 16 * TILES, ROWS = OWN * THREADS / WARP, PART = 32;
    extern __shared__ uint4 memory[];
    bf16 *queries = reinterpret_cast<bf16 *>(memory), *gradients = queries + ROWS * STRIDE;
    bf16 *keys = queries, *values = keys + 2 * KEYS * STRIDE;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int row = blockIdx.x / a.n_heads, head = blockIdx.x % a.n_heads, key_head = head / (a.n_heads / a.n_key_heads);
    const int block = a.after < a.k_len ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
    const int first_query = block * ROWS, first = first_query + warp * OWN, exists = a.exists(row);
    const int begin = a.begin(first_query) / KEYS * KEYS, end = a.end(exists, min(first_query + ROWS, a.q_len) - 1);
    const int last = min(first + OWN, a.q_len) - 1;
    const int some_begin = a.begin(first), some_end = first < a.q_len ? a.end(exists, last) : 0;
    const int all_begin = a.begin(last), all_end = a.end(exists, first);

    const u64 start = u64(row) * a.q_len;
    const Rows<const bf16> out_rows = a.head(Rows<const bf16>{out, u64(a.n_heads) * a.d_value}, start, head, a.d_value);
    const Rows<const bf16> d_rows{d_out + (out_rows.at - out), out_rows.stride};
    query = a.head(query, start, head, a.d_key);
    stage_tile<D, ROWS, THREADS>(queries, {query.at + first_query * query.stride, query.stride}, a.q_len - first_query, a.d_key);
    stage_tile<D, ROWS, THREADS>(gradients, {d_rows.at + first_query * d_rows.stride, d_rows.stride}, a.q_len - first_query,
                                 a.d_value);
    wait_copies();
    __syncthreads();
    u32 left[TILES][D / 16][4], d_left[TILES][D / 16][4];
    LOAD_LEFT(left, queries)
    LOAD_LEFT(d_left, gradients)
    __syncthreads();
    const Rows<const bf16> all_keys = a.head(key, u64(row) * a.k_len, key_head, a.d_key);
    const Rows<const bf16> all_values = a.head(value, u64(row) * a.k_len, key_head, a.d_value);
    const auto stage = [&](int at, int slot) {
        stage_tile<D, KEYS, THREADS>(keys + slot * KEYS * STRIDE, {all_keys.at + at * all_keys.stride, all_keys.stride},
                                     end - at, a.d_key);
        stage_tile<D, KEYS, THREADS>(values + slot * KEYS * STRIDE, {all_values.at + at * all_values.stride, all_values.stride},
                                     end - at, a.d_value);
    };
    if (begin < end) stage(begin, 0);

    float own_sum[TILES][2], own_delta[TILES][2], sums[TILES][D / 8][4];
    const u64 sums_start = u64(blockIdx.x) * a.q_len;
    const int own = first + lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        const int from = first + 16 * tile;
        row_deltas<D>(own_delta[tile], d_left[tile], {out_rows.at + from * out_rows.stride, out_rows.stride}, a.q_len - from,
                      a.d_value);
        clear(sums[tile]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int at = own + 16 * tile + 8 * half;
            if (lane % 4 == 0 && at < a.q_len) delta[sums_start + at] = own_delta[tile][half];
            // Past the last query all weights are 0.
            own_sum[tile][half] = at < a.q_len ? logsumexp[sums_start + at] * LOG2_E : INFINITY_F;
        }
    }
    for (int tile_start = begin, slot = 0; tile_start < end; tile_start += KEYS, slot ^= 1) {
        wait_copies();
        __syncthreads();
        if (tile_start + KEYS < end) stage(tile_start + KEYS, slot ^ 1);
#pragma unroll 1
        for (int at = tile_start; at < tile_start + KEYS; at += PART) {
            if (at >= some_end || at + PART <= some_begin) continue;
            const int offset = (slot * KEYS + at - tile_start) * STRIDE;
            float scores[TILES][PART / 8][4], gradient[TILES][PART / 8][4];
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                clear(scores[tile]);
                clear(gradient[tile]);
            }
            const bf16 *right_keys = across<STRIDE>(keys + offset), *right_values = across<STRIDE>(values + offset);
#pragma unroll
            for (int inner = 0; inner < D / 16; inner++) {
#pragma unroll
                for (int part = 0; part < PART / 16; part++) {
                    u32 right[4];
                    load_matrices(right, right_keys + part * 16 * STRIDE + inner * 16);
#pragma unroll
                    for (int tile = 0; tile < TILES; tile++) {
                        multiply_add(scores[tile][2 * part], left[tile][inner], right[0], right[1]);
                        multiply_add(scores[tile][2 * part + 1], left[tile][inner], right[2], right[3]);
                    }
                    load_matrices(right, right_values + part * 16 * STRIDE + inner * 16);
#pragma unroll
                    for (int tile = 0; tile < TILES; tile++) {
                        multiply_add(gradient[tile][2 * part], d_left[tile][inner], right[0], right[1]);
                        multiply_add(gradient[tile][2 * part + 1], d_left[tile][inner], right[2], right[3]);
                    }
                }
            }
            const bool is_edge = at < all_begin || at + PART > all_end;
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                if (is_edge) hide<PART>(scores[tile], a, exists, own + 16 * tile, at + column);
                if (a.bits) {
                    u64 keep[2];
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        const int at_query = min(own + 16 * tile + 8 * half, a.q_len - 1);
                        keep[half] = kept(a.bits, a.weight(blockIdx.x, at_query) + at) >> column;
                    }
#pragma unroll
                    for (int i = 0; i < PART / 2; i++) gradient[tile][i / 4][i % 4] *= a.keep_scale;
                    drop<PART>(gradient[tile], keep);
                }
                differentiate<PART>(scores[tile], gradient[tile], a.scale * LOG2_E, own_sum[tile], own_delta[tile]);
            }
            const bf16 *right_sums = down<STRIDE>(keys + offset);
#pragma unroll
            for (int inner = 0; inner < PART / 16; inner++) {
                u32 packed[TILES][4];
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    pack_left(packed[tile], gradient[tile][2 * inner], gradient[tile][2 * inner + 1]);
                }
#pragma unroll
                for (int part = 0; part < D / 16; part++) {
                    u32 right[4];
                    load_transposed(right, right_sums + inner * 16 * STRIDE + part * 16);
#pragma unroll
                    for (int tile = 0; tile < TILES; tile++) {
                        multiply_add(sums[tile][2 * part], packed[tile], right[0], right[1]);
                        multiply_add(sums[tile][2 * part + 1], packed[tile], right[2], right[3]);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        const int from = first + 16 * tile;
#pragma unroll
        for (int i = 0; i < D / 2; i++) sums[tile][i / 4][i % 4] *= a.scale;
        store_sums<D>(a.head(d_query, start + from, head, a.d_key), sums[tile], a.q_len - from, a.d_key, true);
    }
}

// ---- dK and dV. Grid: batch · n_key_heads, tiles of keys. Shared memory: two tiles of QUERIES queries and dO, logsumexp
// and delta of these; at first tiles of keys and values. Here scores are transposed, one row per key. ----

// Overwrites scores with P' / keep_scale and dP with dS / scale of 16 queries; rows are keys, `own_key` that of this
// thread. `sums` and `deltas` are those of the queries in shared memory.
__device__ __forceinline__ void differentiate_transposed(float (&scores)[2][4], float (&gradient)[2][4], const Band &a,
                                                         const float *sums, const float *deltas, const u32 (&keep)[4]) {
    const int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int query = i / 2 * 8 + column + i % 2;
        const float sum = sums[query] * LOG2_E, delta = deltas[query];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float &score = scores[i / 2][2 * half + i % 2], &d_weight = gradient[i / 2][2 * half + i % 2];
            score = power_of_two(fmaf(score, a.scale * LOG2_E, -sum));
            if (a.bits) {
                const bool is_kept = keep[i] >> (8 * half) & 1;
                d_weight = score * ((is_kept ? d_weight * a.keep_scale : 0.0f) - delta);
                score = is_kept ? score : 0.0f;
            } else {
                d_weight = score * (d_weight - delta);
            }
        }
    }
}

template <int D, int QUERIES, int TILES>
__device__ __forceinline__ void differentiate_keys(const Band &a, Rows<const bf16> query, Rows<const bf16> key,
                                                   Rows<const bf16> value, const bf16 *d_out, const float *logsumexp,
                                                   const float *delta, Rows<bf16> d_key, Rows<bf16> d_value) {
    constexpr int STRIDE = D + TILE_PADDING, OWN = 16 * TILES, ROWS = OWN * THREADS / WARP, SIZE = QUERIES * STRIDE;
    extern __shared__ uint4 memory[];
    float *known_sums = reinterpret_cast<float *>(memory), *known_deltas = known_sums + 2 * QUERIES;
    bf16 *queries = reinterpret_cast<bf16 *>(known_deltas + 2 * QUERIES), *gradients = queries + 2 * SIZE;
    bf16 *keys = queries, *values = keys + ROWS * STRIDE;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int row = blockIdx.x / a.n_key_heads, key_head = blockIdx.x % a.n_key_heads, group = a.n_heads / a.n_key_heads;
    // With a band that ends at the query, the first keys have most queries and start first.
    const int first_key = blockIdx.y * ROWS, exists = a.exists(row), first = first_key + warp * OWN;
    const u64 position = u64(row) * a.k_len + first_key;
    stage_tile<D, ROWS, THREADS>(keys, a.head(key, position, key_head, a.d_key), exists - first_key, a.d_key);
    stage_tile<D, ROWS, THREADS>(values, a.head(value, position, key_head, a.d_value), exists - first_key, a.d_value);
    wait_copies();
    __syncthreads();
    u32 left[TILES][D / 16][4], v_left[TILES][D / 16][4];
    LOAD_LEFT(left, keys)
    LOAD_LEFT(v_left, values)
    __syncthreads();

    float key_sums[TILES][D / 8][4], value_sums[TILES][D / 8][4];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        clear(key_sums[tile]);
        clear(value_sums[tile]);
    }
    // Queries that attend to a key of the block: from the one that reaches its first key to the one that still reaches
    // its last. Keys beyond the length have none.
    const int offset = a.k_len - a.q_len, last_key = min(first_key + ROWS, exists) - 1;
    const int begin = max(first_key - a.after - offset, 0) / QUERIES * QUERIES;
    const int end = first_key < exists ? min(a.q_len, last_key + a.before - offset + 1) : 0;
    const int n_tiles = end > begin ? (end - begin + QUERIES - 1) / QUERIES : 0, n = n_tiles * group;
    const auto stage = [&](int index) {
        const int slot = index % 2, at = begin + index % n_tiles * QUERIES, head = key_head * group + index / n_tiles;
        const u64 start = u64(row) * a.q_len + at, sums_start = (u64(row) * a.n_heads + head) * a.q_len + at;
        const Rows<const bf16> d_rows{d_out, u64(a.n_heads) * a.d_value};
        stage_tile<D, QUERIES, THREADS>(queries + slot * SIZE, a.head(query, start, head, a.d_key), a.q_len - at, a.d_key);
        stage_tile<D, QUERIES, THREADS>(gradients + slot * SIZE, a.head(d_rows, start, head, a.d_value), a.q_len - at,
                                        a.d_value);
        for (int i = threadIdx.x; i < QUERIES; i += THREADS) {
            float *sum = known_sums + slot * QUERIES + i, *known = known_deltas + slot * QUERIES + i;
            if (at + i < a.q_len) {
                copy_async_word(sum, logsumexp + sums_start + i);
                copy_async_word(known, delta + sums_start + i);
            } else {
                // Past the last query all weights are 0.
                *sum = INFINITY_F;
                *known = 0.0f;
            }
        }
    };
    if (n > 0) stage(0);
    const int column = lane % 4 * 2;
    for (int index = 0; index < n; index++) {
        wait_copies();
        __syncthreads();
        if (index + 1 < n) stage(index + 1);
        const int slot = index % 2, tile_start = begin + index % n_tiles * QUERIES;
        const u64 head = u64(row) * a.n_heads + key_head * group + index / n_tiles;
#pragma unroll 1
        for (int at = tile_start; at < tile_start + QUERIES; at += 16) {
            // The band of the sixteen queries; the warp's keys are from first to first + OWN − 1.
            const int some_end = a.end(exists, at + 15), some_begin = a.begin(at);
            if (at >= end || first >= some_end || first + OWN <= some_begin) continue;
            const int from = slot * SIZE + (at - tile_start) * STRIDE;
            float scores[TILES][2][4], gradient[TILES][2][4];
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                clear(scores[tile]);
                clear(gradient[tile]);
            }
            const bf16 *right_queries = across<STRIDE>(queries + from), *right_gradients = across<STRIDE>(gradients + from);
#pragma unroll
            for (int inner = 0; inner < D / 16; inner++) {
                u32 right[4];
                load_matrices(right, right_queries + inner * 16);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    multiply_add(scores[tile][0], left[tile][inner], right[0], right[1]);
                    multiply_add(scores[tile][1], left[tile][inner], right[2], right[3]);
                }
                load_matrices(right, right_gradients + inner * 16);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    multiply_add(gradient[tile][0], v_left[tile][inner], right[0], right[1]);
                    multiply_add(gradient[tile][1], v_left[tile][inner], right[2], right[3]);
                }
            }
            const bool is_edge = first < a.begin(at + 15) || first + OWN > a.end(exists, at);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                const int own = first + 16 * tile + lane / 4;
                u32 keep[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int at_query = at + i / 2 * 8 + column + i % 2;
                    if (is_edge) {
                        const int from_key = a.begin(at_query), to_key = a.end(exists, at_query);
#pragma unroll
                        for (int half = 0; half < 2; half++) {
                            if (own + 8 * half < from_key || own + 8 * half >= to_key) {
                                scores[tile][i / 2][2 * half + i % 2] = -INFINITY_F;
                            }
                        }
                    }
                    if (a.bits) keep[i] = kept_word(a.bits, a.weight(head, min(at_query, a.q_len - 1)) + own);
                }
                const int known = slot * QUERIES + at - tile_start;
                differentiate_transposed(scores[tile], gradient[tile], a, known_sums + known, known_deltas + known, keep);
            }
            const bf16 *down_gradients = down<STRIDE>(gradients + from), *down_queries = down<STRIDE>(queries + from);
            u32 packed[TILES][4], d_packed[TILES][4];
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                pack_left(packed[tile], scores[tile][0], scores[tile][1]);
                pack_left(d_packed[tile], gradient[tile][0], gradient[tile][1]);
            }
#pragma unroll
            for (int part = 0; part < D / 16; part++) {
                u32 right[4];
                load_transposed(right, down_gradients + part * 16);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    multiply_add(value_sums[tile][2 * part], packed[tile], right[0], right[1]);
                    multiply_add(value_sums[tile][2 * part + 1], packed[tile], right[2], right[3]);
                }
                load_transposed(right, down_queries + part * 16);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    multiply_add(key_sums[tile][2 * part], d_packed[tile], right[0], right[1]);
                    multiply_add(key_sums[tile][2 * part + 1], d_packed[tile], right[2], right[3]);
                }
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        const int own = warp * OWN + 16 * tile, left_over = a.k_len - first_key - own;
#pragma unroll
        for (int i = 0; i < D / 2; i++) {
            key_sums[tile][i / 4][i % 4] *= a.scale;
            value_sums[tile][i / 4][i % 4] *= a.keep_scale;
        }
        store_sums<D>(a.head(d_key, position + own, key_head, a.d_key), key_sums[tile], left_over, a.d_key, true);
        store_sums<D>(a.head(d_value, position + own, key_head, a.d_value), value_sums[tile], left_over, a.d_value, true);
    }
}

#define INPUTS                                                                                                             \
    const bf16 *query, u32 query_stride, const bf16 *key, u32 key_stride, const bf16 *value, u32 value_stride

#define INSTANCE(D, KEYS, QUERIES, TILES)                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) attention_tiled_queries_##D(                                  \
        INPUTS, const bf16 *out, const bf16 *d_out, const float *logsumexp, float *delta, bf16 *d_query,                   \
        u32 d_query_stride, BAND_PARAMETERS) {                                                                             \
        differentiate_queries<D, KEYS, TILES>(BAND, {query, query_stride}, {key, key_stride}, {value, value_stride}, out,  \
                                              d_out, logsumexp, delta, {d_query, d_query_stride});                         \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) attention_tiled_keys_##D(                                     \
        INPUTS, const bf16 *d_out, const float *logsumexp, const float *delta, bf16 *d_key, u32 d_key_stride, bf16 *d_value, \
        u32 d_value_stride, BAND_PARAMETERS) {                                                                             \
        differentiate_keys<D, QUERIES, TILES>(BAND, {query, query_stride}, {key, key_stride}, {value, value_stride}, d_out, \
                                              logsumexp, delta, {d_key, d_key_stride}, {d_value, d_value_stride});         \
    }

INSTANCE(32, 64, 64, 2)
INSTANCE(64, 64, 64, 2)
INSTANCE(128, 32, 32, 1)
