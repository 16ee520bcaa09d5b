// Attention backward in bf16 for short sequences (up to 64 queries and 64 keys): all three gradients in one kernel.
//
// With P the weights and P' the weights after dropout: dV = P'ᵀ·dO, dP = dropout(dO·Vᵀ), dS = scale · P ∘ (dP −
// rowsum(P ∘ dP)), dQ = dS·K, dK = dSᵀ·Q. A block has one key head of one row of the batch and loops over the query
// heads that share it, in order. First each warp has 16 queries: it computes P' and dS, writes them to shared memory,
// and dQ. Then each warp has 16 keys, for dK and dV, which stay in registers from head to head. If every query head has
// its own key head (not GROUPED), these registers are free for the first half, and more blocks fit.
//
// Grid: batch · n_key_heads. Block: 32 threads per 16 of the larger of both lengths. Shared memory: as in `Shared`.

template <int D, int KEYS> struct Shared {
    bf16 *keys, *values, *queries, *d_out, *weights, *d_scores;
    u32 *bits;

    __device__ __forceinline__ Shared(void *at, int rows) {
        constexpr int STRIDE = D + TILE_PADDING;
        keys = static_cast<bf16 *>(at);
        values = keys + KEYS * STRIDE;
        queries = values + KEYS * STRIDE;
        d_out = queries + rows * STRIDE;
        weights = d_out + rows * STRIDE;
        d_scores = weights + rows * (KEYS + TILE_PADDING);
        bits = reinterpret_cast<u32 *>(d_scores + rows * (KEYS + TILE_PADDING));
    }
};

// State of one of the thread's queries.
struct Query {
    int visible;
    // Base 2.
    float logsumexp;
    // A bit per key, from the thread's first column.
    u64 keep;
};

// logsumexp of this thread's two queries, base 2.
__device__ __forceinline__ float2 own_logsumexp(const Attention &a, const float *logsumexp, u64 head) {
    const int query = threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
    const float *own = logsumexp + head * a.q_len + query;
    return make_float2(query < a.q_len ? own[0] * LOG2_E : 0.0f, query + 8 < a.q_len ? own[8] * LOG2_E : 0.0f);
}

// For one query of the thread, overwrites scores with P' and dP with dS.
template <int KEYS>
__device__ __forceinline__ void differentiate(float (&scores)[KEYS / 8][4], float (&gradient)[KEYS / 8][4], int half,
                                              const Query &q, float scale, float keep_scale) {
    const int column = threadIdx.x % 4 * 2;
    float mean = 0.0f;
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) {
        float &weight = scores[i / 2][2 * half + i % 2], &d_weight = gradient[i / 2][2 * half + i % 2];
        const int key = i / 2 * 8 + i % 2;
        weight = column + key < q.visible ? power_of_two(weight * (scale * LOG2_E) - q.logsumexp) : 0.0f;
        d_weight = q.keep >> key & 1 ? d_weight * keep_scale : 0.0f;
        mean += weight * d_weight;
    }
    mean += __shfl_xor_sync(ALL_LANES, mean, 1);
    mean += __shfl_xor_sync(ALL_LANES, mean, 2);
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) {
        float &weight = scores[i / 2][2 * half + i % 2], &d_weight = gradient[i / 2][2 * half + i % 2];
        d_weight = scale * weight * (d_weight - mean);
        weight = q.keep >> (i / 2 * 8 + i % 2) & 1 ? weight * keep_scale : 0.0f;
    }
}

// Copies the sixteen rows of a warp from registers to a tile.
template <int KEYS> __device__ __forceinline__ void keep_rows(bf16 *tile, const u32 (&rows)[KEYS / 16][4]) {
    const int lane = threadIdx.x % WARP;
    u32 *at = reinterpret_cast<u32 *>(tile + lane / 4 * (KEYS + TILE_PADDING) + lane % 4 * 2);
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) {
        at[i % 2 * 4 * (KEYS + TILE_PADDING) + i / 2 * 4] = rows[i / 4][i % 4];
    }
}

// Computes P' and dS of the warp's sixteen queries into shared memory, and dQ.
template <int D, int KEYS>
__device__ __forceinline__ void query_side(const Attention &a, const Shared<D, KEYS> &shared, float2 logsumexp,
                                           Rows<bf16> d_query, int exists, u64 head) {
    constexpr int STRIDE = D + TILE_PADDING;
    const int lane = threadIdx.x % WARP, first = threadIdx.x / WARP * 16, tiles = (exists + 15) / 16;
    float scores[KEYS / 8][4], gradient[KEYS / 8][4];
    rows_by_rows<D, KEYS>(scores, shared.queries + first * STRIDE, shared.keys, tiles);
    rows_by_rows<D, KEYS>(gradient, shared.d_out + first * STRIDE, shared.values, tiles);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int query = first + lane / 4 + 8 * half;
        Query q{a.visible(exists, query), half ? logsumexp.y : logsumexp.x, ~0ull};
        if (a.dropout.threshold) {
            q.keep = window(shared.bits, first_bit(a, head, 0, query, 0, KEYS) + lane % 4 * 2);
        }
        differentiate<KEYS>(scores, gradient, half, q, a.scale, a.keep_scale());
    }
    u32 packed[KEYS / 16][4];
    as_left<KEYS>(packed, scores);
    keep_rows<KEYS>(shared.weights + first * (KEYS + TILE_PADDING), packed);
    as_left<KEYS>(packed, gradient);
    keep_rows<KEYS>(shared.d_scores + first * (KEYS + TILE_PADDING), packed);
    float sums[D / 8][4];
    clear(sums);
    registers_by_tile<STRIDE, KEYS, D>(sums, packed, shared.keys, tiles);
    d_query.at += first * d_query.stride;
    store_sums<D>(d_query, sums, a.q_len - first, a.d_key, a.wide);
}

template <int D, int KEYS, bool GROUPED>
__device__ __forceinline__ void differentiate_short(const Attention &a, Rows<const bf16> query, Rows<const bf16> key,
                                                    Rows<const bf16> value, const bf16 *d_out, const float *logsumexp,
                                                    Rows<bf16> d_query, Rows<bf16> d_key, Rows<bf16> d_value) {
    constexpr int STRIDE = D + TILE_PADDING, WEIGHTS = KEYS + TILE_PADDING;
    extern __shared__ uint4 memory[];
    const int row = blockIdx.x / a.n_key_heads, key_head = blockIdx.x % a.n_key_heads;
    const int group = GROUPED ? a.n_heads / a.n_key_heads : 1;
    const int warp = threadIdx.x / WARP, q_tiles = (a.q_len + 15) / 16, exists = a.exists(row);
    const u64 first_query = u64(row) * a.q_len, first_key = u64(row) * a.k_len;
    const Shared<D, KEYS> shared(memory, q_tiles * 16);
    const int own = warp * 16;
    d_key = a.head(d_key, first_key + own, key_head, a.d_key);
    d_value = a.head(d_value, first_key + own, key_head, a.d_value);
    float key_sums[D / 8][4], value_sums[D / 8][4];
    if (GROUPED) {
        clear(key_sums);
        clear(value_sums);
    }
    for (int head = key_head * group; head < (key_head + 1) * group; head++) {
        const Rows<const bf16> gradient{d_out, u64(a.n_heads) * a.d_value};
        const u64 index = u64(row) * a.n_heads + head;
        load_tile<D>(shared.queries, a.head(query, first_query, head, a.d_key), q_tiles * 16, a.q_len, a.d_key, a.wide);
        load_tile<D>(shared.d_out, a.head(gradient, first_query, head, a.d_value), q_tiles * 16, a.q_len, a.d_value, a.wide);
        if (head == key_head * group) {
            load_tile<D>(shared.keys, a.head(key, first_key, key_head, a.d_key), KEYS, exists, a.d_key, a.wide);
            load_tile<D>(shared.values, a.head(value, first_key, key_head, a.d_value), KEYS, exists, a.d_value, a.wide);
        }
        const float2 sums = own_logsumexp(a, logsumexp, index);
        if (a.dropout.threshold) draw_tile(shared.bits, a, index, 0, a.q_len, 0, KEYS);
        wait_copies();
        __syncthreads();
        if (warp < q_tiles) {
            const Rows<bf16> target = a.head(d_query, first_query, head, a.d_key);
            query_side<D, KEYS>(a, shared, sums, target, exists, index);
        }
        __syncthreads();
        // Keys beyond the length have sums of 0.
        const int n = own < exists ? q_tiles : 0;
        if (!GROUPED) clear(value_sums);
        columns_by_tile<WEIGHTS, STRIDE, D>(value_sums, shared.weights + own, shared.d_out, n);
        if (!GROUPED) store_sums<D>(d_value, value_sums, a.k_len - own, a.d_value, a.wide);
        if (!GROUPED) clear(key_sums);
        columns_by_tile<WEIGHTS, STRIDE, D>(key_sums, shared.d_scores + own, shared.queries, n);
        if (!GROUPED) store_sums<D>(d_key, key_sums, a.k_len - own, a.d_key, a.wide);
        // The next head overwrites the tiles.
        if (GROUPED) __syncthreads();
    }
    if (GROUPED) {
        store_sums<D>(d_value, value_sums, a.k_len - own, a.d_value, a.wide);
        store_sums<D>(d_key, key_sums, a.k_len - own, a.d_key, a.wide);
    }
}

#define INSTANCE(NAME, D, KEYS, GROUPED)                                                                                   \
    extern "C" __global__ void __launch_bounds__(128) NAME##_bf16_##D##_##KEYS(                                            \
        const bf16 *query, u32 query_stride, const bf16 *key, u32 key_stride, const bf16 *value, u32 value_stride,         \
        const bf16 *d_out, const float *logsumexp, bf16 *d_query, u32 d_query_stride, bf16 *d_key, u32 d_key_stride,       \
        bf16 *d_value, u32 d_value_stride, ATTENTION_PARAMETERS) {                                                         \
        differentiate_short<D, KEYS, GROUPED>(ATTENTION, {query, query_stride}, {key, key_stride}, {value, value_stride},  \
                                              d_out, logsumexp, {d_query, d_query_stride}, {d_key, d_key_stride},          \
                                              {d_value, d_value_stride});                                                  \
    }

INSTANCE(attention_backward, 32, 32, false)
INSTANCE(attention_backward, 32, 64, false)
INSTANCE(attention_backward, 64, 32, false)
INSTANCE(attention_backward, 64, 64, false)
INSTANCE(attention_backward, 128, 64, false)
INSTANCE(attention_backward_grouped, 32, 64, true)
INSTANCE(attention_backward_grouped, 64, 64, true)
INSTANCE(attention_backward_grouped, 128, 64, true)
