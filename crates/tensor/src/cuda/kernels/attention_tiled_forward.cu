// Attention forward in bf16 for long sequences: as attention_forward.cu, with 16·TILES queries per warp, queries in
// registers, and tiles of keys and values copied while the tile before them is multiplied (Dao 2023).
//
// With 32 queries a warp, each operand read from shared memory serves two products. A warp skips tiles of keys that
// none of its queries attends to, and compares positions only in tiles at the edge of the visible band. With an edge on
// the right the blocks with most keys start first.
//
// Grid: batch · n_heads, tiles of queries. Block: 128 threads. Shared memory: a tile of queries, two of KEYS keys and
// values.

#define THREADS 128

template <int D, int KEYS, int TILES>
__device__ __forceinline__ void attend(const Band &a, Rows<const bf16> query, Rows<const bf16> key, Rows<const bf16> value,
                                       bf16 *out, float *logsumexp) {
    constexpr int STRIDE = D + TILE_PADDING, OWN = 16 * TILES, ROWS = OWN * THREADS / WARP;
    extern __shared__ uint4 memory[];
    bf16 *queries = reinterpret_cast<bf16 *>(memory), *keys = queries + ROWS * STRIDE, *values = keys + 2 * KEYS * STRIDE;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int row = blockIdx.x / a.n_heads, head = blockIdx.x % a.n_heads, key_head = head / (a.n_heads / a.n_key_heads);
    const int block = a.after < a.k_len ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
    const int first_query = block * ROWS, first = first_query + warp * OWN, exists = a.exists(row);
    const int begin = a.begin(first_query) / KEYS * KEYS, end = a.end(exists, min(first_query + ROWS, a.q_len) - 1);
    // The keys that any of the warp's queries attends to, and those that all attend to.
    const int last = min(first + OWN, a.q_len) - 1;
    const int some_begin = a.begin(first), some_end = first < a.q_len ? a.end(exists, last) : 0;
    const int all_begin = a.begin(last), all_end = a.end(exists, first);

    const Rows<const bf16> all_keys = a.head(key, u64(row) * a.k_len, key_head, a.d_key);
    const Rows<const bf16> all_values = a.head(value, u64(row) * a.k_len, key_head, a.d_value);
    const auto stage = [&](int at, int slot) {
        stage_tile<D, KEYS, THREADS>(keys + slot * KEYS * STRIDE, {all_keys.at + at * all_keys.stride, all_keys.stride},
                                     end - at, a.d_key);
        stage_tile<D, KEYS, THREADS>(values + slot * KEYS * STRIDE, {all_values.at + at * all_values.stride, all_values.stride},
                                     end - at, a.d_value);
    };
    query = a.head(query, u64(row) * a.q_len + first_query, head, a.d_key);
    stage_tile<D, ROWS, THREADS>(queries, query, a.q_len - first_query, a.d_key);
    if (begin < end) stage(begin, 0);
    wait_copies();
    __syncthreads();
    u32 left[TILES][D / 16][4];
    float mixed[TILES][D / 8][4];
    Running running[TILES];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        load_left<D>(left[tile], queries + (warp * OWN + tile * 16) * STRIDE);
        clear(mixed[tile]);
        running[tile] = Running{{NO_BASE, NO_BASE}, {0.0f, 0.0f}};
    }
    const int own = first + lane / 4, column = lane % 4 * 2;
    for (int at = begin, slot = 0; at < end; at += KEYS, slot ^= 1) {
        if (at > begin) {
            wait_copies();
            __syncthreads();
        }
        if (at + KEYS < end) stage(at + KEYS, slot ^ 1);
        if (at >= some_end || at + KEYS <= some_begin) continue;
        u64 keep[TILES][2];
        if (a.bits) {
#pragma unroll
            for (int i = 0; i < 2 * TILES; i++) {
                const int at_query = min(own + 8 * i, a.q_len - 1);
                keep[i / 2][i % 2] = kept(a.bits, a.weight(blockIdx.x, at_query) + at) >> column;
            }
        }
        float scores[TILES][KEYS / 8][4];
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) clear(scores[tile]);
        const bf16 *right_keys = across<STRIDE>(keys + slot * KEYS * STRIDE);
#pragma unroll
        for (int inner = 0; inner < D / 16; inner++) {
#pragma unroll
            for (int part = 0; part < KEYS / 16; part++) {
                u32 right[4];
                load_matrices(right, right_keys + part * 16 * STRIDE + inner * 16);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    multiply_add(scores[tile][2 * part], left[tile][inner], right[0], right[1]);
                    multiply_add(scores[tile][2 * part + 1], left[tile][inner], right[2], right[3]);
                }
            }
        }
        const bool is_edge = at < all_begin || at + KEYS > all_end;
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            if (is_edge) hide<KEYS>(scores[tile], a, exists, own + 16 * tile, at + column);
            weigh<D, KEYS>(scores[tile], mixed[tile], running[tile], a.scale * LOG2_E);
            if (a.bits) drop<KEYS>(scores[tile], keep[tile]);
        }
        const bf16 *right_values = down<STRIDE>(values + slot * KEYS * STRIDE);
#pragma unroll
        for (int inner = 0; inner < KEYS / 16; inner++) {
            u32 weights[TILES][4];
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                pack_left(weights[tile], scores[tile][2 * inner], scores[tile][2 * inner + 1]);
            }
#pragma unroll
            for (int part = 0; part < D / 16; part++) {
                u32 right[4];
                load_transposed(right, right_values + inner * 16 * STRIDE + part * 16);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    multiply_add(mixed[tile][2 * part], weights[tile], right[0], right[1]);
                    multiply_add(mixed[tile][2 * part + 1], weights[tile], right[2], right[3]);
                }
            }
        }
    }
    const Rows<bf16> all{out, u64(a.n_heads) * a.d_value};
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        const int from = first + 16 * tile;
        finish<D>(mixed[tile], a, running[tile], logsumexp + u64(blockIdx.x) * a.q_len, own + 16 * tile);
        store_sums<D>(a.head(all, u64(row) * a.q_len + from, head, a.d_value), mixed[tile], a.q_len - from, a.d_value, true);
    }
}

#define INSTANCE(D, KEYS, TILES)                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) attention_tiled_forward_##D(                                  \
        const bf16 *query, u32 query_stride, const bf16 *key, u32 key_stride, const bf16 *value, u32 value_stride,         \
        bf16 *out, float *logsumexp, BAND_PARAMETERS) {                                                                    \
        attend<D, KEYS, TILES>(BAND, {query, query_stride}, {key, key_stride}, {value, value_stride}, out, logsumexp);     \
    }

INSTANCE(32, 64, 2)
INSTANCE(64, 64, 2)
INSTANCE(128, 64, 1)
