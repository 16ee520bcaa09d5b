// Attention backward in bf16 for long sequences on Hopper GPUs: as attention_tiled_backward.cu, with 64 queries or keys
// per warpgroup.

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Keys, or queries, of a staged tile.
#define OTHERS 64

// ---- dQ. Grid: batch · n_heads, tiles of queries. Shared memory: a ring of tiles of keys and values,
// tiles of queries and dO. ----

template <int D, int WARPGROUPS>
__device__ __forceinline__ void differentiate_queries(const Band &a, Rows<const bf16> query, Rows<const bf16> key,
                                                      Rows<const bf16> value, const bf16 *out, const bf16 *d_out,
                                                      const float *logsumexp, float *delta, Rows<bf16> d_query) {
    constexpr int THREADS = WARPGROUPS * WARPGROUP, ROWS = WARPGROUPS * 64, SIZE = OTHERS * D;
    constexpr int SLOTS = SLOTS_OF(WARPGROUPS);
    extern __shared__ __align__(1024) uint4 memory[];
    bf16 *keys = reinterpret_cast<bf16 *>(memory), *values = keys + SLOTS * SIZE;
    bf16 *queries = values + SLOTS * SIZE, *gradients = queries + ROWS * D;
    const Ring<SLOTS> ring(gradients + ROWS * D);
    const int lane = threadIdx.x % WARP, group = __shfl_sync(ALL_LANES, threadIdx.x / WARPGROUP, 0);
    const int row = blockIdx.x / a.n_heads, head = blockIdx.x % a.n_heads, key_head = head / (a.n_heads / a.n_key_heads);
    const int block = a.after < a.k_len ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
    const int first_query = block * ROWS, first = first_query + group * 64, exists = a.exists(row);
    const int begin = a.begin(first_query) / OTHERS * OTHERS, end = a.end(exists, min(first_query + ROWS, a.q_len) - 1);
    const int last = min(first + 64, a.q_len) - 1;
    const int some_begin = a.begin(first), some_end = first < a.q_len ? a.end(exists, last) : 0;
    const int all_begin = a.begin(last), all_end = a.end(exists, first);

    const u64 start = u64(row) * a.q_len;
    const Rows<const bf16> out_rows = a.head(Rows<const bf16>{out, u64(a.n_heads) * a.d_value}, start, head, a.d_value);
    const Rows<const bf16> d_rows{d_out + (out_rows.at - out), out_rows.stride};
    query = a.head(query, start, head, a.d_key);
    stage_panels<D, ROWS, THREADS>(queries, {query.at + first_query * query.stride, query.stride}, a.q_len - first_query,
                                   a.d_key);
    stage_panels<D, ROWS, THREADS>(gradients, {d_rows.at + first_query * d_rows.stride, d_rows.stride}, a.q_len - first_query,
                                   a.d_value);
    const Rows<const bf16> all_keys = a.head(key, u64(row) * a.k_len, key_head, a.d_key);
    const Rows<const bf16> all_values = a.head(value, u64(row) * a.k_len, key_head, a.d_value);
    const int n = max(end - begin + OTHERS - 1, 0) / OTHERS;
    const auto stage = [&](int tile) {
        const int at = begin + tile * OTHERS, slot = tile % SLOTS;
        stage_panels<D, OTHERS, THREADS>(keys + slot * SIZE, {all_keys.at + at * all_keys.stride, all_keys.stride}, end - at,
                                         a.d_key);
        stage_panels<D, OTHERS, THREADS>(values + slot * SIZE, {all_values.at + at * all_values.stride, all_values.stride},
                                         end - at, a.d_value);
    };
    ring.start(n, stage);
    const int warp_row = threadIdx.x % WARPGROUP / WARP * 16, from = first + warp_row;
    const int own = from + lane / 4, column = lane % 4 * 2;
    u32 d_left[D / 16][4];
    load_panels<D, ROWS>(d_left, gradients, group * 64 + warp_row);
    const u64 left_panel = panel_descriptor(queries + group * 64 * 64), d_panel = panel_descriptor(gradients + group * 64 * 64);

    float own_sum[2], own_delta[2], sums[D / 8][4];
    const u64 sums_start = u64(blockIdx.x) * a.q_len;
    row_deltas<D>(own_delta, d_left, {out_rows.at + from * out_rows.stride, out_rows.stride}, a.q_len - from, a.d_value);
    clear(sums);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int at = own + 8 * half;
        if (lane % 4 == 0 && at < a.q_len) delta[sums_start + at] = own_delta[half];
        // Past the last query all weights are 0.
        own_sum[half] = at < a.q_len ? logsumexp[sums_start + at] * LOG2_E : INFINITY_F;
    }
    for (int tile = 0; tile < n; tile++) {
        ring.next(tile, n, stage);
        const int at = begin + tile * OTHERS, slot = tile % SLOTS;
        if (at >= some_end || at + OTHERS <= some_begin) {
            ring.arrive(ring.empty, tile);
            continue;
        }
        const u64 key_panel = panel_descriptor(keys + slot * SIZE), value_panel = panel_descriptor(values + slot * SIZE);
        float scores[OTHERS / 8][4], gradient[OTHERS / 8][4];
        begin_products();
#pragma unroll
        for (int inner = 0; inner < D / 16; inner++) {
            product_of_panels(scores, left_panel + inner / 4 * (ROWS * 8) + inner % 4 * NEXT_COLUMNS,
                              key_panel + inner / 4 * (OTHERS * 8) + inner % 4 * NEXT_COLUMNS, inner);
        }
        commit_products();
#pragma unroll
        for (int inner = 0; inner < D / 16; inner++) {
            product_of_panels(gradient, d_panel + inner / 4 * (ROWS * 8) + inner % 4 * NEXT_COLUMNS,
                              value_panel + inner / 4 * (OTHERS * 8) + inner % 4 * NEXT_COLUMNS, inner);
        }
        commit_products();
        wait_products<1>();
        settle(scores);
        if (at < all_begin || at + OTHERS > all_end) hide<OTHERS>(scores, a, exists, own, at + column);
#pragma unroll
        for (int i = 0; i < OTHERS / 2; i++) {
            scores[i / 4][i % 4] = power_of_two(fmaf(scores[i / 4][i % 4], a.scale * LOG2_E, -own_sum[i / 2 % 2]));
        }
        wait_products<0>();
        settle(gradient);
        if (a.bits) {
            u64 keep[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                keep[half] = kept(a.bits, a.weight(blockIdx.x, min(own + 8 * half, a.q_len - 1)) + at) >> column;
            }
#pragma unroll
            for (int i = 0; i < OTHERS / 2; i++) gradient[i / 4][i % 4] *= a.keep_scale;
            drop<OTHERS>(gradient, keep);
        }
        u32 packed[OTHERS / 16][4];
#pragma unroll
        for (int i = 0; i < OTHERS / 2; i++) {
            gradient[i / 4][i % 4] = scores[i / 4][i % 4] * (gradient[i / 4][i % 4] - own_delta[i / 2 % 2]);
        }
#pragma unroll
        for (int inner = 0; inner < OTHERS / 16; inner++) pack_left(packed[inner], gradient[2 * inner], gradient[2 * inner + 1]);
        begin_products();
#pragma unroll
        for (int inner = 0; inner < OTHERS / 16; inner++) {
#pragma unroll
            for (int panel = 0; panel < D / 64; panel++) {
                product_with_columns(sums + panel * 8, packed[inner], key_panel + panel * (OTHERS * 8) + inner * NEXT_ROWS);
            }
        }
        commit_products();
        wait_products<0>();
        settle(sums);
        ring.arrive(ring.empty, tile);
    }
#pragma unroll
    for (int i = 0; i < D / 2; i++) sums[i / 4][i % 4] *= a.scale;
    store_sums<D>(a.head(d_query, start + from, head, a.d_key), sums, a.q_len - from, a.d_key, true);
}

// ---- dK and dV. Grid: batch · n_key_heads, tiles of keys. Shared memory: a ring of tiles of queries and dO, tiles
// of keys and values, logsumexp and delta of the queries. Here scores are transposed, one row per key. ----

// Overwrites scores by −∞ where a query does not attend to a key; `own` is the thread's first key, `query` its first
// query.
__device__ __forceinline__ void hide_transposed(float (&scores)[OTHERS / 8][4], const Band &a, int exists, int own, int query) {
#pragma unroll
    for (int i = 0; i < OTHERS / 4; i++) {
        const int at = query + i / 2 * 8 + i % 2, begin = a.begin(at), end = a.end(exists, at);
        if (own < begin || own >= end) scores[i / 2][i % 2] = -INFINITY_F;
        if (own + 8 < begin || own + 8 >= end) scores[i / 2][2 + i % 2] = -INFINITY_F;
    }
}

// Two packed values, those with a minus sign as 0.
__device__ __forceinline__ u32 without_negatives(u32 word) {
    u32 out;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(word), "r"(0));
    return out;
}

template <int D, int WARPGROUPS>
__device__ __forceinline__ void differentiate_keys(const Band &a, Rows<const bf16> query, Rows<const bf16> key,
                                                   Rows<const bf16> value, const bf16 *d_out, const float *logsumexp,
                                                   const float *delta, Rows<bf16> d_key, Rows<bf16> d_value) {
    constexpr int THREADS = WARPGROUPS * WARPGROUP, ROWS = WARPGROUPS * 64, SIZE = OTHERS * D;
    constexpr int SLOTS = SLOTS_OF(WARPGROUPS);
    // Whether dV is added up while dS is computed, which needs more registers than three warpgroups can have.
    constexpr bool EARLY = D == 128;
    extern __shared__ __align__(1024) uint4 memory[];
    bf16 *queries = reinterpret_cast<bf16 *>(memory), *gradients = queries + SLOTS * SIZE;
    bf16 *keys = gradients + SLOTS * SIZE, *values = keys + ROWS * D;
    float *known_sums = reinterpret_cast<float *>(values + ROWS * D), *known_deltas = known_sums + SLOTS * OTHERS;
    const Ring<SLOTS> ring(known_deltas + SLOTS * OTHERS);
    const int lane = threadIdx.x % WARP, group = __shfl_sync(ALL_LANES, threadIdx.x / WARPGROUP, 0);
    const int row = blockIdx.x / a.n_key_heads, key_head = blockIdx.x % a.n_key_heads, shared_by = a.n_heads / a.n_key_heads;
    // With a band that ends at the query, the first keys have most queries and start first.
    const int first_key = blockIdx.y * ROWS, exists = a.exists(row), first = first_key + group * 64;
    const u64 position = u64(row) * a.k_len + first_key;
    stage_panels<D, ROWS, THREADS>(keys, a.head(key, position, key_head, a.d_key), exists - first_key, a.d_key);
    stage_panels<D, ROWS, THREADS>(values, a.head(value, position, key_head, a.d_value), exists - first_key, a.d_value);

    float key_sums[D / 8][4], value_sums[D / 8][4];
    clear(key_sums);
    clear(value_sums);
    // Queries that attend to a key of the block: from the one that reaches its first key to the one that still reaches
    // its last. Keys beyond the length have none.
    const int offset = a.k_len - a.q_len, last_key = min(first_key + ROWS, exists) - 1;
    const int begin = max(first_key - a.after - offset, 0) / OTHERS * OTHERS;
    const int end = first_key < exists ? min(a.q_len, last_key + a.before - offset + 1) : 0;
    const int n_tiles = end > begin ? (end - begin + OTHERS - 1) / OTHERS : 0, n = n_tiles * shared_by;
    const auto stage = [&](int index) {
        const int slot = index % SLOTS, at = begin + index % n_tiles * OTHERS, head = key_head * shared_by + index / n_tiles;
        const u64 start = u64(row) * a.q_len + at, sums_start = (u64(row) * a.n_heads + head) * a.q_len + at;
        const Rows<const bf16> d_rows{d_out, u64(a.n_heads) * a.d_value};
        stage_panels<D, OTHERS, THREADS>(queries + slot * SIZE, a.head(query, start, head, a.d_key), a.q_len - at, a.d_key);
        stage_panels<D, OTHERS, THREADS>(gradients + slot * SIZE, a.head(d_rows, start, head, a.d_value), a.q_len - at,
                                         a.d_value);
        const int i = threadIdx.x;
        if (i >= OTHERS) return;
        float *sum = known_sums + slot * OTHERS + i, *known = known_deltas + slot * OTHERS + i;
        if (at + i < a.q_len) {
            copy_async_word(sum, logsumexp + sums_start + i);
            copy_async_word(known, delta + sums_start + i);
        } else {
            // Past the last query all weights are 0.
            *sum = INFINITY_F;
            *known = 0.0f;
        }
    };
    ring.start(n, stage);
    const int warp_row = threadIdx.x % WARPGROUP / WARP * 16, own = first + warp_row + lane / 4, column = lane % 4 * 2;
    const u64 key_panel = panel_descriptor(keys + group * 64 * 64), value_panel = panel_descriptor(values + group * 64 * 64);
    for (int index = 0; index < n; index++) {
        ring.next(index, n, stage);
        const int slot = index % SLOTS, at = begin + index % n_tiles * OTHERS;
        // The band of the tile's queries; the warpgroup's keys are from first to first + 63.
        const int last = min(at + OTHERS, a.q_len) - 1;
        if (first >= a.end(exists, last) || first + 64 <= a.begin(at)) {
            ring.arrive(ring.empty, index);
            continue;
        }
        const u64 query_panel = panel_descriptor(queries + slot * SIZE), d_panel = panel_descriptor(gradients + slot * SIZE);
        float scores[OTHERS / 8][4], gradient[OTHERS / 8][4];
        begin_products();
#pragma unroll
        for (int inner = 0; inner < D / 16; inner++) {
            product_of_panels(scores, key_panel + inner / 4 * (ROWS * 8) + inner % 4 * NEXT_COLUMNS,
                              query_panel + inner / 4 * (OTHERS * 8) + inner % 4 * NEXT_COLUMNS, inner);
        }
        commit_products();
#pragma unroll
        for (int inner = 0; inner < D / 16; inner++) {
            product_of_panels(gradient, value_panel + inner / 4 * (ROWS * 8) + inner % 4 * NEXT_COLUMNS,
                              d_panel + inner / 4 * (OTHERS * 8) + inner % 4 * NEXT_COLUMNS, inner);
        }
        commit_products();
        const float *sums = known_sums + slot * OTHERS + column, *deltas = known_deltas + slot * OTHERS + column;
        wait_products<1>();
        settle(scores);
        if (first < a.begin(last) || first + 64 > a.end(exists, at)) hide_transposed(scores, a, exists, own, at + column);
        const u64 head = u64(row) * a.n_heads + key_head * shared_by + index / n_tiles;
        u32 packed[OTHERS / 16][4];
#pragma unroll
        for (int i = 0; i < OTHERS / 4; i++) {
            float &upper = scores[i / 2][i % 2], &lower = scores[i / 2][2 + i % 2];
            const float sum = sums[i / 2 * 8 + i % 2] * LOG2_E;
            upper = power_of_two(fmaf(upper, a.scale * LOG2_E, -sum));
            lower = power_of_two(fmaf(lower, a.scale * LOG2_E, -sum));
            if (a.bits) {
                // A dropped weight is stored with a minus sign.
                const int at_query = min(at + column + i / 2 * 8 + i % 2, a.q_len - 1);
                const u32 keep = kept_word(a.bits, a.weight(head, at_query) + own);
                upper = keep & 1 ? upper : -upper;
                lower = keep >> 8 & 1 ? lower : -lower;
            }
        }
        const auto pack_weights = [&] {
#pragma unroll
            for (int i = 0; i < OTHERS / 16; i++) pack_left(packed[i], scores[2 * i], scores[2 * i + 1]);
            if (!a.bits) return;
#pragma unroll
            for (int i = 0; i < OTHERS / 4; i++) packed[i / 4][i % 4] = without_negatives(packed[i / 4][i % 4]);
        };
        const auto add_values = [&] {
#pragma unroll
            for (int inner = 0; inner < OTHERS / 16; inner++) {
#pragma unroll
                for (int panel = 0; panel < D / 64; panel++) {
                    const int below = panel * (OTHERS * 8) + inner * NEXT_ROWS;
                    product_with_columns(value_sums + panel * 8, packed[inner], d_panel + below);
                }
            }
        };
        if (EARLY) {
            pack_weights();
            begin_products();
            add_values();
            commit_products();
            wait_products<1>();
        } else {
            wait_products<0>();
        }
        settle(gradient);
#pragma unroll
        for (int i = 0; i < OTHERS / 4; i++) {
            const float known = deltas[i / 2 * 8 + i % 2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float weight = scores[i / 2][2 * half + i % 2];
                float &d_weight = gradient[i / 2][2 * half + i % 2];
                if (a.bits) {
                    const bool is_kept = __float_as_int(weight) >= 0;
                    d_weight = fabsf(weight) * ((is_kept ? d_weight * a.keep_scale : 0.0f) - known);
                } else {
                    d_weight = weight * (d_weight - known);
                }
            }
        }
        u32 d_packed[OTHERS / 16][4];
#pragma unroll
        for (int inner = 0; inner < OTHERS / 16; inner++) {
            pack_left(d_packed[inner], gradient[2 * inner], gradient[2 * inner + 1]);
        }
        if (!EARLY) pack_weights();
        begin_products();
        if (!EARLY) add_values();
#pragma unroll
        for (int inner = 0; inner < OTHERS / 16; inner++) {
#pragma unroll
            for (int panel = 0; panel < D / 64; panel++) {
                const int below = panel * (OTHERS * 8) + inner * NEXT_ROWS;
                product_with_columns(key_sums + panel * 8, d_packed[inner], query_panel + below);
            }
        }
        commit_products();
        wait_products<0>();
        settle(value_sums);
        settle(key_sums);
        ring.arrive(ring.empty, index);
    }
#pragma unroll
    for (int i = 0; i < D / 2; i++) {
        key_sums[i / 4][i % 4] *= a.scale;
        value_sums[i / 4][i % 4] *= a.keep_scale;
    }
    const int below = group * 64 + warp_row, left_over = a.k_len - first_key - below;
    store_sums<D>(a.head(d_key, position + below, key_head, a.d_key), key_sums, left_over, a.d_key, true);
    store_sums<D>(a.head(d_value, position + below, key_head, a.d_value), value_sums, left_over, a.d_value, true);
}

#define INPUTS                                                                                                             \
    const bf16 *query, u32 query_stride, const bf16 *key, u32 key_stride, const bf16 *value, u32 value_stride

#define QUERIES_INSTANCE(D, WARPGROUPS, BLOCKS)                                                                            \
    extern "C" __global__ void __launch_bounds__(WARPGROUPS * WARPGROUP, BLOCKS) attention_hopper_queries_##D(             \
        INPUTS, const bf16 *out, const bf16 *d_out, const float *logsumexp, float *delta, bf16 *d_query,                   \
        u32 d_query_stride, BAND_PARAMETERS) {                                                                             \
        differentiate_queries<D, WARPGROUPS>(BAND, {query, query_stride}, {key, key_stride}, {value, value_stride}, out,   \
                                             d_out, logsumexp, delta, {d_query, d_query_stride});                          \
    }
#define KEYS_INSTANCE(D, WARPGROUPS, BLOCKS)                                                                               \
    extern "C" __global__ void __launch_bounds__(WARPGROUPS * WARPGROUP, BLOCKS) attention_hopper_keys_##D(                \
        INPUTS, const bf16 *d_out, const float *logsumexp, const float *delta, bf16 *d_key, u32 d_key_stride, bf16 *d_value, \
        u32 d_value_stride, BAND_PARAMETERS) {                                                                             \
        differentiate_keys<D, WARPGROUPS>(BAND, {query, query_stride}, {key, key_stride}, {value, value_stride}, d_out,    \
                                          logsumexp, delta, {d_key, d_key_stride}, {d_value, d_value_stride});             \
    }

QUERIES_INSTANCE(64, 1, 3)
QUERIES_INSTANCE(128, 3, 1)
KEYS_INSTANCE(64, 1, 3)
KEYS_INSTANCE(128, 2, 1)

#endif
