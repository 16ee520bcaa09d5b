// Attention forward in bf16 for long sequences on Hopper GPUs: as attention_tiled_forward.cu, with 64 queries per
// warpgroup. While one warpgroup computes weights, the others multiply.
//
// Grid: batch · n_heads, tiles of queries. Block: WARPGROUPS · 128 threads. Shared memory: a ring of tiles of 64
// keys and values, a tile of queries, the ring.

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int D, int WARPGROUPS>
__device__ __forceinline__ void attend(const Band &a, Rows<const bf16> query, Rows<const bf16> key, Rows<const bf16> value,
                                       bf16 *out, float *logsumexp) {
    constexpr int THREADS = WARPGROUPS * WARPGROUP, ROWS = WARPGROUPS * 64, KEYS = 64, SIZE = KEYS * D;
    constexpr int SLOTS = SLOTS_OF(WARPGROUPS);
    extern __shared__ __align__(1024) uint4 memory[];
    bf16 *keys = reinterpret_cast<bf16 *>(memory), *values = keys + SLOTS * SIZE;
    bf16 *queries = values + SLOTS * SIZE;
    const Ring<SLOTS> ring(queries + ROWS * D);
    const int lane = threadIdx.x % WARP, group = __shfl_sync(ALL_LANES, threadIdx.x / WARPGROUP, 0);
    const int row = blockIdx.x / a.n_heads, head = blockIdx.x % a.n_heads, key_head = head / (a.n_heads / a.n_key_heads);
    const int block = a.after < a.k_len ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
    const int first_query = block * ROWS, first = first_query + group * 64, exists = a.exists(row);
    const int begin = a.begin(first_query) / KEYS * KEYS, end = a.end(exists, min(first_query + ROWS, a.q_len) - 1);
    // The keys that any of the warpgroup's queries attends to, and those that all attend to.
    const int last = min(first + 64, a.q_len) - 1;
    const int some_begin = a.begin(first), some_end = first < a.q_len ? a.end(exists, last) : 0;
    const int all_begin = a.begin(last), all_end = a.end(exists, first);

    const Rows<const bf16> all_keys = a.head(key, u64(row) * a.k_len, key_head, a.d_key);
    const Rows<const bf16> all_values = a.head(value, u64(row) * a.k_len, key_head, a.d_value);
    const int n = max(end - begin + KEYS - 1, 0) / KEYS;
    const auto stage = [&](int tile) {
        const int at = begin + tile * KEYS, slot = tile % SLOTS;
        stage_panels<D, KEYS, THREADS>(keys + slot * SIZE, {all_keys.at + at * all_keys.stride, all_keys.stride}, end - at,
                                       a.d_key);
        stage_panels<D, KEYS, THREADS>(values + slot * SIZE, {all_values.at + at * all_values.stride, all_values.stride},
                                       end - at, a.d_value);
    };
    query = a.head(query, u64(row) * a.q_len + first_query, head, a.d_key);
    stage_panels<D, ROWS, THREADS>(queries, query, a.q_len - first_query, a.d_key);
    ring.start(n, stage);
    const int warp_row = threadIdx.x % WARPGROUP / WARP * 16, own = first + warp_row + lane / 4, column = lane % 4 * 2;
    const u64 left_panel = panel_descriptor(queries + group * 64 * 64);
    float mixed[D / 8][4];
    clear(mixed);
    Running running{{NO_BASE, NO_BASE}, {0.0f, 0.0f}};
    for (int tile = 0; tile < n; tile++) {
        ring.next(tile, n, stage);
        const int at = begin + tile * KEYS, slot = tile % SLOTS;
        if (at >= some_end || at + KEYS <= some_begin) {
            ring.arrive(ring.empty, tile);
            continue;
        }
        const u64 key_panel = panel_descriptor(keys + slot * SIZE), value_panel = panel_descriptor(values + slot * SIZE);
        float scores[KEYS / 8][4];
        begin_products();
#pragma unroll
        for (int inner = 0; inner < D / 16; inner++) {
            const int right = inner % 4 * NEXT_COLUMNS;
            product_of_panels(scores, left_panel + inner / 4 * (ROWS * 8) + right, key_panel + inner / 4 * (KEYS * 8) + right,
                              inner);
        }
        commit_products();
        wait_products<0>();
        settle(scores);
        if (at < all_begin || at + KEYS > all_end) hide<KEYS>(scores, a, exists, own, at + column);
        weigh<D, KEYS>(scores, mixed, running, a.scale * LOG2_E);
        if (a.bits) {
            u64 keep[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                keep[half] = kept(a.bits, a.weight(blockIdx.x, min(own + 8 * half, a.q_len - 1)) + at) >> column;
            }
            drop<KEYS>(scores, keep);
        }
        u32 weights[KEYS / 16][4];
#pragma unroll
        for (int inner = 0; inner < KEYS / 16; inner++) pack_left(weights[inner], scores[2 * inner], scores[2 * inner + 1]);
        begin_products();
#pragma unroll
        for (int inner = 0; inner < KEYS / 16; inner++) {
#pragma unroll
            for (int panel = 0; panel < D / 64; panel++) {
                const int below = panel * (KEYS * 8) + inner * NEXT_ROWS;
                product_with_columns(mixed + panel * 8, weights[inner], value_panel + below);
            }
        }
        commit_products();
        wait_products<0>();
        settle(mixed);
        ring.arrive(ring.empty, tile);
    }
    finish<D>(mixed, a, running, logsumexp + u64(blockIdx.x) * a.q_len, own);
    const int from = first + warp_row;
    const Rows<bf16> all{out, u64(a.n_heads) * a.d_value};
    store_sums<D>(a.head(all, u64(row) * a.q_len + from, head, a.d_value), mixed, a.q_len - from, a.d_value, true);
}

#define INSTANCE(D, WARPGROUPS, BLOCKS)                                                                                    \
    extern "C" __global__ void __launch_bounds__(WARPGROUPS * WARPGROUP, BLOCKS) attention_hopper_forward_##D(             \
        const bf16 *query, u32 query_stride, const bf16 *key, u32 key_stride, const bf16 *value, u32 value_stride,         \
        bf16 *out, float *logsumexp, BAND_PARAMETERS) {                                                                    \
        attend<D, WARPGROUPS>(BAND, {query, query_stride}, {key, key_stride}, {value, value_stride}, out, logsumexp);      \
    }

INSTANCE(64, 2, 2)
INSTANCE(128, 3, 1)

#endif
