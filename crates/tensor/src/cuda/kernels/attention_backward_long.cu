// Attention backward in bf16 for any lengths: one kernel for dQ, which loops over the keys, and one for dK and dV,
// which loops over the queries. Both recompute the weights, so no sum is shared by several blocks.
//
// Equations as in attention_backward.cu; rowsum(P ∘ dP) = rowsum(dO ∘ O) = `delta`, which the kernel for dQ writes and
// the kernel for dK and dV reads, so dQ must run first (Dao et al. 2022).

// ---- dQ. Grid: batch · n_heads, tiles of queries (16 per warp). Shared memory: tiles of queries and dO, of KEYS keys
// and values, and dropout bits. ----

// Writes delta of the warp's sixteen queries to memory; each lane returns those of its two.
__device__ __forceinline__ void row_deltas(const Attention &a, Rows<const bf16> d_out, Rows<const bf16> out, float *delta,
                                           int n_rows, float (&own)[2]) {
    const int lane = threadIdx.x % WARP;
    own[0] = own[1] = 0.0f;
    for (int row = 0; row < min(n_rows, 16); row++) {
        float sum = 0.0f;
        for (int column = lane; column < a.d_value; column += WARP) {
            sum += to_float(d_out.at[row * d_out.stride + column]) * to_float(out.at[row * out.stride + column]);
        }
        sum = warp_sum(sum);
        if (lane == 0) delta[row] = sum;
        if (row == lane / 4) own[0] = sum;
        if (row == lane / 4 + 8) own[1] = sum;
    }
}

// Overwrites dP with dS for the thread's two queries, given their scores.
template <int KEYS>
__device__ __forceinline__ void differentiate(const float (&scores)[KEYS / 8][4], float (&gradient)[KEYS / 8][4],
                                              const Attention &a, const int (&visible)[2], const float (&logsumexp)[2],
                                              const float (&delta)[2], const u64 (&keep)[2]) {
    const int column = threadIdx.x % 4 * 2;
    const float keep_scale = a.keep_scale();
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) {
        const int half = i / (KEYS / 4), at = i % (KEYS / 4), key = at / 2 * 8 + at % 2;
        const float score = scores[at / 2][2 * half + at % 2];
        float &d_weight = gradient[at / 2][2 * half + at % 2];
        const float weight =
            column + key < visible[half] ? power_of_two(score * (a.scale * LOG2_E) - logsumexp[half]) : 0.0f;
        d_weight = a.scale * weight * ((keep[half] >> key & 1 ? d_weight * keep_scale : 0.0f) - delta[half]);
    }
}

template <int D, int KEYS>
__device__ __forceinline__ void differentiate_queries(const Attention &a, Rows<const bf16> query, Rows<const bf16> key,
                                                      Rows<const bf16> value, const bf16 *out, const bf16 *d_out,
                                                      const float *logsumexp, float *delta, Rows<bf16> d_query) {
    constexpr int STRIDE = D + TILE_PADDING;
    extern __shared__ uint4 memory[];
    const int rows = blockDim.x / WARP * 16, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    bf16 *keys = reinterpret_cast<bf16 *>(memory), *values = keys + KEYS * STRIDE, *queries = values + KEYS * STRIDE;
    bf16 *gradients = queries + rows * STRIDE;
    u32 *bits = reinterpret_cast<u32 *>(gradients + rows * STRIDE);
    const int row = blockIdx.x / a.n_heads, head = blockIdx.x % a.n_heads, key_head = head / (a.n_heads / a.n_key_heads);
    const int first_query = blockIdx.y * rows, first = first_query + warp * 16, exists = a.exists(row);
    const u64 block_start = u64(row) * a.q_len + first_query, start = u64(row) * a.q_len + first;
    const u64 sums_start = u64(blockIdx.x) * a.q_len + first;
    const Rows<const bf16> d_rows{d_out, u64(a.n_heads) * a.d_value}, out_rows{out, d_rows.stride};
    load_tile<D>(queries, a.head(query, block_start, head, a.d_key), rows, a.q_len - first_query, a.d_key, a.wide);
    load_tile<D>(gradients, a.head(d_rows, block_start, head, a.d_value), rows, a.q_len - first_query, a.d_value, a.wide);

    int visible[2];
    float own_sum[2], own_delta[2];
    row_deltas(a, a.head(d_rows, start, head, a.d_value), a.head(out_rows, start, head, a.d_value), delta + sums_start,
               a.q_len - first, own_delta);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int at = lane / 4 + 8 * half;
        visible[half] = a.visible(exists, first + at);
        own_sum[half] = first + at < a.q_len ? logsumexp[sums_start + at] * LOG2_E : 0.0f;
    }
    const int n_keys = a.visible(exists, min(first_query + rows, a.q_len) - 1);
    float sums[D / 8][4];
    clear(sums);
    for (int first_key = 0; first_key < n_keys; first_key += KEYS) {
        const int left = n_keys - first_key, tiles = (left + 15) / 16;
        const u64 position = u64(row) * a.k_len + first_key;
        load_tile<D>(keys, a.head(key, position, key_head, a.d_key), KEYS, left, a.d_key, a.wide);
        load_tile<D>(values, a.head(value, position, key_head, a.d_value), KEYS, left, a.d_value, a.wide);
        const int from = first_key / 128 * 128;
        if (a.dropout.threshold && first_key == from) draw_tile(bits, a, blockIdx.x, first_query, rows, from, KEYS);
        wait_copies();
        __syncthreads();
        u64 keep[2] = {~0ull, ~0ull};
        int seen[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int at = lane / 4 + 8 * half;
            seen[half] = visible[half] - first_key;
            if (a.dropout.threshold) {
                const u32 offset = first_bit(a, blockIdx.x, first_query, warp * 16 + at, from, KEYS) + first_key - from;
                keep[half] = window(bits, offset + lane % 4 * 2);
            }
        }
        float scores[KEYS / 8][4], gradient[KEYS / 8][4];
        rows_by_rows<D, KEYS>(scores, queries + warp * 16 * STRIDE, keys, tiles);
        rows_by_rows<D, KEYS>(gradient, gradients + warp * 16 * STRIDE, values, tiles);
        differentiate<KEYS>(scores, gradient, a, seen, own_sum, own_delta, keep);
        u32 packed[KEYS / 16][4];
        as_left<KEYS>(packed, gradient);
        registers_by_tile<STRIDE, KEYS, D>(sums, packed, keys, tiles);
        __syncthreads();
    }
    store_sums<D>(a.head(d_query, start, head, a.d_key), sums, a.q_len - first, a.d_key, a.wide);
}

// ---- dK and dV. Grid: batch · n_key_heads, tiles of keys (16 per warp, at most 64), parts of PART columns of the
// gradients (so that their sums fit into registers). Shared memory: tiles of keys and values, of 32 queries and dO, the
// state of these queries, and dropout bits. Here scores are transposed, one row per key. ----

#define QUERIES 32

// State of the queries of a tile.
struct Known {
    int visible[QUERIES];
    float logsumexp[QUERIES], delta[QUERIES];
    // Index of the bit of the block's first key.
    u32 bit[QUERIES];
};

__device__ __forceinline__ void know(Known &known, const Attention &a, const float *logsumexp, const float *delta, int exists,
                                     u64 head, int first_query, int first_key, int rows) {
    for (int i = threadIdx.x; i < QUERIES; i += blockDim.x) {
        const int query = first_query + i;
        const bool real = query < a.q_len;
        known.visible[i] = a.visible(exists, query);
        known.logsumexp[i] = real ? logsumexp[head * a.q_len + query] * LOG2_E : 0.0f;
        known.delta[i] = real ? delta[head * a.q_len + query] : 0.0f;
        known.bit[i] = first_bit(a, head, first_query, i, first_key, rows);
    }
}

// Overwrites scores with P' and dP with dS; rows are keys, `own_key` that of this thread, and the block begins at
// first_key.
__device__ __forceinline__ void differentiate_transposed(float (&scores)[QUERIES / 8][4], float (&gradient)[QUERIES / 8][4],
                                                         const Attention &a, const Known &known, const u32 *bits, int own_key,
                                                         int first_key) {
    const float keep_scale = a.keep_scale();
#pragma unroll
    for (int i = 0; i < QUERIES / 4; i++) {
        const int query = i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
        const int visible = known.visible[query];
        const float logsumexp = known.logsumexp[query], delta = known.delta[query];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int key = own_key + 8 * half;
            float factor = keep_scale;
            if (a.dropout.threshold) {
                const u32 offset = known.bit[query] + key - first_key;
                if (!(bits[offset / 32] >> offset % 32 & 1)) factor = 0.0f;
            }
            float &score = scores[i / 2][2 * half + i % 2], &d_weight = gradient[i / 2][2 * half + i % 2];
            const float weight = key < visible ? power_of_two(score * (a.scale * LOG2_E) - logsumexp) : 0.0f;
            d_weight = a.scale * weight * (d_weight * factor - delta);
            score = weight * factor;
        }
    }
}

template <int D, int PART>
__device__ __forceinline__ void differentiate_keys(const Attention &a, Rows<const bf16> query, Rows<const bf16> key,
                                                   Rows<const bf16> value, const bf16 *d_out, const float *logsumexp,
                                                   const float *delta, Rows<bf16> d_key, Rows<bf16> d_value) {
    constexpr int STRIDE = D + TILE_PADDING;
    extern __shared__ uint4 memory[];
    const int rows = blockDim.x / WARP * 16, lane = threadIdx.x % WARP, own = threadIdx.x / WARP * 16;
    bf16 *queries = reinterpret_cast<bf16 *>(memory), *gradients = queries + QUERIES * STRIDE;
    bf16 *keys = gradients + QUERIES * STRIDE, *values = keys + rows * STRIDE;
    Known &known = *reinterpret_cast<Known *>(values + rows * STRIDE);
    u32 *bits = reinterpret_cast<u32 *>(&known + 1);
    const int row = blockIdx.x / a.n_key_heads, key_head = blockIdx.x % a.n_key_heads, group = a.n_heads / a.n_key_heads;
    const int first_key = blockIdx.y * rows, exists = a.exists(row), part = blockIdx.z * PART;
    const u64 position = u64(row) * a.k_len + first_key;
    load_tile<D>(keys, a.head(key, position, key_head, a.d_key), rows, exists - first_key, a.d_key, a.wide);
    load_tile<D>(values, a.head(value, position, key_head, a.d_value), rows, exists - first_key, a.d_value, a.wide);

    float key_sums[PART / 8][4], value_sums[PART / 8][4];
    clear(key_sums);
    clear(value_sums);
    // Earlier queries attend to none of the block's keys; keys beyond the length are visible to none.
    const int first_seeing = a.causal ? max(first_key + a.q_len - a.k_len, 0) : 0;
    const int end = first_key < exists ? a.q_len : 0;
    for (int head = key_head * group; head < (key_head + 1) * group; head++) {
        const u64 index = u64(row) * a.n_heads + head;
        const Rows<const bf16> d_rows{d_out, u64(a.n_heads) * a.d_value};
        for (int first_query = first_seeing; first_query < end; first_query += QUERIES) {
            const u64 start = u64(row) * a.q_len + first_query;
            const int left = a.q_len - first_query, tiles = (left + 15) / 16;
            load_tile<D>(queries, a.head(query, start, head, a.d_key), QUERIES, left, a.d_key, a.wide);
            load_tile<D>(gradients, a.head(d_rows, start, head, a.d_value), QUERIES, left, a.d_value, a.wide);
            know(known, a, logsumexp, delta, exists, index, first_query, first_key, rows);
            if (a.dropout.threshold) draw_tile(bits, a, index, first_query, QUERIES, first_key, rows);
            wait_copies();
            __syncthreads();
            float scores[QUERIES / 8][4], gradient[QUERIES / 8][4];
            rows_by_rows<D, QUERIES>(scores, keys + own * STRIDE, queries, tiles);
            rows_by_rows<D, QUERIES>(gradient, values + own * STRIDE, gradients, tiles);
            differentiate_transposed(scores, gradient, a, known, bits, first_key + own + lane / 4, first_key);
            u32 packed[QUERIES / 16][4];
            as_left<QUERIES>(packed, scores);
            registers_by_tile<STRIDE, QUERIES, PART>(value_sums, packed, gradients + part, tiles);
            as_left<QUERIES>(packed, gradient);
            registers_by_tile<STRIDE, QUERIES, PART>(key_sums, packed, queries + part, tiles);
            __syncthreads();
        }
    }
    d_key = a.head(d_key, position + own, key_head, a.d_key);
    d_value = a.head(d_value, position + own, key_head, a.d_value);
    const int left = a.k_len - first_key - own;
    store_sums<PART>({d_key.at + part, d_key.stride}, key_sums, left, a.d_key - part, a.wide);
    store_sums<PART>({d_value.at + part, d_value.stride}, value_sums, left, a.d_value - part, a.wide);
}

#define INPUTS                                                                                                             \
    const bf16 *query, u32 query_stride, const bf16 *key, u32 key_stride, const bf16 *value, u32 value_stride

#define INSTANCE(D, KEYS, PART)                                                                                            \
    extern "C" __global__ void __launch_bounds__(128) attention_queries_bf16_##D(                                          \
        INPUTS, const bf16 *out, const bf16 *d_out, const float *logsumexp, float *delta, bf16 *d_query,                   \
        u32 d_query_stride, ATTENTION_PARAMETERS) {                                                                        \
        differentiate_queries<D, KEYS>(ATTENTION, {query, query_stride}, {key, key_stride}, {value, value_stride}, out,    \
                                       d_out, logsumexp, delta, {d_query, d_query_stride});                                \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(128) attention_keys_bf16_##D(                                             \
        INPUTS, const bf16 *d_out, const float *logsumexp, const float *delta, bf16 *d_key, u32 d_key_stride, bf16 *d_value, \
        u32 d_value_stride, ATTENTION_PARAMETERS) {                                                                        \
        differentiate_keys<D, PART>(ATTENTION, {query, query_stride}, {key, key_stride}, {value, value_stride}, d_out,     \
                                    logsumexp, delta, {d_key, d_key_stride}, {d_value, d_value_stride});                   \
    }

INSTANCE(32, 64, 32)
INSTANCE(64, 64, 64)
INSTANCE(128, 32, 128)
INSTANCE(256, 32, 128)
