// Attention forward in bf16: softmax(scale · Q·Kᵀ, masked)·V for each head, and the logsumexp of each query's scores.
//
// Vaswani et al. 2017; keys in tiles with a running maximum and sum, so the weights are never stored (Dao et al. 2022).
// A block has 16 queries per warp, all of one head. Keys that no query of the block attends to are neither read nor
// multiplied. With few keys there is one tile and the loop runs once.
//
// Grid: batch · n_heads, tiles of queries. Block: 32 to 128 threads. Shared memory: tiles of queries, keys and values,
// and dropout bits, as in `Shared`.

// Layout of shared memory; the host computes the same size.
template <int D, int KEYS> struct Shared {
    bf16 *queries, *keys, *values;
    u32 *bits;

    __device__ __forceinline__ Shared(void *at, int rows) {
        constexpr int STRIDE = D + TILE_PADDING;
        keys = static_cast<bf16 *>(at);
        values = keys + KEYS * STRIDE;
        queries = values + KEYS * STRIDE;
        bits = reinterpret_cast<u32 *>(queries + rows * STRIDE);
    }
};

// State of a thread's two queries, lane / 4 and lane / 4 + 8 of the warp's sixteen.
struct Queries {
    int visible[2];
    float maximum[2], sum[2];
};

// Turns scores into weights relative to the running maximum; earlier sums are rescaled to the new maximum.
template <int D, int KEYS>
__device__ __forceinline__ void softmax_step(float (&scores)[KEYS / 8][4], float (&mixed)[D / 8][4], Queries &q, float scale,
                                             int first_key) {
    const int column = first_key + threadIdx.x % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float maximum = q.maximum[half];
#pragma unroll
        for (int i = 0; i < KEYS / 4; i++) {
            float &score = scores[i / 2][2 * half + i % 2];
            score = column + i / 2 * 8 + i % 2 < q.visible[half] ? score * scale : -INFINITY_F;
            maximum = fmaxf(maximum, score);
        }
        maximum = fmaxf(maximum, __shfl_xor_sync(ALL_LANES, maximum, 1));
        maximum = fmaxf(maximum, __shfl_xor_sync(ALL_LANES, maximum, 2));
        // Nothing visible so far: all scores are −∞, and any finite maximum gives weights of 0.
        const float base = maximum == -INFINITY_F ? 0.0f : maximum;
        const float correction = power_of_two(q.maximum[half] - base);
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < KEYS / 4; i++) {
            float &score = scores[i / 2][2 * half + i % 2];
            score = power_of_two(score - base);
            sum += score;
        }
        q.sum[half] = q.sum[half] * correction + sum;
        q.maximum[half] = maximum;
#pragma unroll
        for (int i = 0; i < D / 4; i++) mixed[i / 2][2 * half + i % 2] *= correction;
    }
}

// Drops weights whose bit is 0.
template <int KEYS>
__device__ __forceinline__ void drop(float (&weights)[KEYS / 8][4], const u32 *bits, const Attention &a, int first_query,
                                     int first_key) {
    const int lane = threadIdx.x % WARP, from = first_key / 128 * 128;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = threadIdx.x / WARP * 16 + lane / 4 + 8 * half;
        const u32 offset = first_bit(a, blockIdx.x, first_query, row, from, KEYS) + first_key - from;
        const u64 keep = window(bits, offset + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < KEYS / 4; i++) {
            if (!(keep >> (i / 2 * 8 + i % 2) & 1)) weights[i / 2][2 * half + i % 2] = 0.0f;
        }
    }
}

template <int D, int KEYS>
__device__ __forceinline__ void attend(const Attention &a, Rows<const bf16> query, Rows<const bf16> key,
                                       Rows<const bf16> value, bf16 *out, float *logsumexp) {
    constexpr int STRIDE = D + TILE_PADDING;
    extern __shared__ uint4 memory[];
    const int rows = blockDim.x / WARP * 16, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const Shared<D, KEYS> shared(memory, rows);
    const int row = blockIdx.x / a.n_heads, head = blockIdx.x % a.n_heads, key_head = head / (a.n_heads / a.n_key_heads);
    const int first_query = blockIdx.y * rows, own = first_query + warp * 16 + lane / 4;
    query = a.head(query, u64(row) * a.q_len + first_query, head, a.d_key);
    load_tile<D>(shared.queries, query, rows, a.q_len - first_query, a.d_key, a.wide);

    const int exists = a.exists(row), n_keys = a.visible(exists, min(first_query + rows, a.q_len) - 1);
    Queries q{{a.visible(exists, own), a.visible(exists, own + 8)}, {-INFINITY_F, -INFINITY_F}, {0.0f, 0.0f}};
    float mixed[D / 8][4];
    clear(mixed);
    for (int first_key = 0; first_key < n_keys; first_key += KEYS) {
        const int left = n_keys - first_key, tiles = (left + 15) / 16;
        const u64 position = u64(row) * a.k_len + first_key;
        load_tile<D>(shared.keys, a.head(key, position, key_head, a.d_key), KEYS, left, a.d_key, a.wide);
        load_tile<D>(shared.values, a.head(value, position, key_head, a.d_value), KEYS, left, a.d_value, a.wide);
        const int from = first_key / 128 * 128;
        if (a.dropout.threshold && first_key == from) draw_tile(shared.bits, a, blockIdx.x, first_query, rows, from, KEYS);
        wait_copies();
        __syncthreads();
        float scores[KEYS / 8][4];
        rows_by_rows<D, KEYS>(scores, shared.queries + warp * 16 * STRIDE, shared.keys, tiles);
        softmax_step<D, KEYS>(scores, mixed, q, a.scale * LOG2_E, first_key);
        if (a.dropout.threshold) drop<KEYS>(scores, shared.bits, a, first_query, first_key);
        u32 weights[KEYS / 16][4];
        as_left<KEYS>(weights, scores);
        registers_by_tile<STRIDE, KEYS, D>(mixed, weights, shared.values, tiles);
        __syncthreads();
    }

#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = q.sum[half];
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
        const float factor = sum > 0.0f ? a.keep_scale() / sum : 0.0f;
#pragma unroll
        for (int i = 0; i < D / 4; i++) mixed[i / 2][2 * half + i % 2] *= factor;
        if (lane % 4 == 0 && own + 8 * half < a.q_len) {
            const float total = sum > 0.0f ? q.maximum[half] / LOG2_E + logf(sum) : INFINITY_F;
            logsumexp[u64(blockIdx.x) * a.q_len + own + 8 * half] = total;
        }
    }
    const int first = first_query + warp * 16;
    const Rows<bf16> all{out, u64(a.n_heads) * a.d_value};
    store_sums<D>(a.head(all, u64(row) * a.q_len + first, head, a.d_value), mixed, a.q_len - first, a.d_value, a.wide);
}

#define INSTANCE(D, KEYS)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(128) attention_forward_bf16_##D##_##KEYS(                                 \
        const bf16 *query, u32 query_stride, const bf16 *key, u32 key_stride, const bf16 *value, u32 value_stride,         \
        bf16 *out, float *logsumexp, ATTENTION_PARAMETERS) {                                                               \
        attend<D, KEYS>(ATTENTION, {query, query_stride}, {key, key_stride}, {value, value_stride}, out, logsumexp);       \
    }

INSTANCE(32, 32)
INSTANCE(32, 64)
INSTANCE(64, 32)
INSTANCE(64, 64)
INSTANCE(128, 32)
INSTANCE(128, 64)
INSTANCE(256, 32)
