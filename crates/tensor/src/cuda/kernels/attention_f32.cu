// Attention forward and backward in f32, sums and products in f32 throughout, for any lengths.
//
// Equations as in attention_forward.cu and attention_backward.cu. A warp has a few rows of one side (queries; keys for
// dK and dV) and loops over the other side in tiles of 32 in shared memory, one row per lane: `dots` computes the
// products of the warp's rows with the lane's row, `mix` sums the tile's rows weighted by the lanes' weights, each lane
// its own columns. Heads are padded with zeros to D columns.

#define TILE 32

// Sizes that follow from the columns of a head.
template <int D> struct Of {
    // Columns of a lane: lane, lane + 32, …
    static constexpr int C = D / WARP;
    // Rows per warp; fewer if shared memory is short.
    static constexpr int OWN = D == 256 ? 4 : 8;
    // Rows are padded so that lanes that read different rows at the same column use different banks.
    static constexpr int STRIDE = D + 4;
};

// Copies `rows` rows of a head to a tile by the whole block, followed by wait_copies; missing values become 0.
template <int D>
__device__ __forceinline__ void load_tile(float *tile, Rows<const float> from, int rows, int n_rows, int n_columns,
                                          bool wide) {
    for (int chunk = threadIdx.x; chunk < rows * (D / 4); chunk += blockDim.x) {
        const int row = chunk / (D / 4), column = chunk % (D / 4) * 4;
        float *to = tile + row * Of<D>::STRIDE + column;
        const bool real = row < n_rows && column < n_columns;
        const float *source = real ? from.at + row * from.stride + column : from.at;
        if (wide) {
            copy_async(to, source, real);
            continue;
        }
        for (int i = 0; i < 4; i++) to[i] = real && column + i < n_columns ? source[i] : 0.0f;
    }
}

// Products of the warp's rows with this lane's row of the tile.
template <int D> __device__ __forceinline__ void dots(float (&out)[Of<D>::OWN], const float *own, const float *tile) {
    const float *row = tile + threadIdx.x % WARP * Of<D>::STRIDE;
#pragma unroll
    for (int i = 0; i < Of<D>::OWN; i++) out[i] = 0.0f;
#pragma unroll 2
    for (int column = 0; column < D; column += 4) {
        const float4 x = *reinterpret_cast<const float4 *>(row + column);
#pragma unroll
        for (int i = 0; i < Of<D>::OWN; i++) {
            const float4 y = *reinterpret_cast<const float4 *>(own + i * Of<D>::STRIDE + column);
            out[i] = fmaf(x.x, y.x, fmaf(x.y, y.y, fmaf(x.z, y.z, fmaf(x.w, y.w, out[i]))));
        }
    }
}

// sums += weights · tile; lane j has the weights of row j, 0 if there is no such row. `spread` is the warp's buffer for
// them, from which four are read at once.
template <int D>
__device__ __forceinline__ void mix(float (&sums)[Of<D>::OWN][Of<D>::C], const float (&weights)[Of<D>::OWN], float *spread,
                                    const float *tile, int n_rows) {
    constexpr int C = Of<D>::C, OWN = Of<D>::OWN;
    const int lane = threadIdx.x % WARP;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < OWN; i++) spread[i * TILE + lane] = weights[i];
    __syncwarp();
    for (int row = 0; row < min(n_rows, TILE); row += 4) {
        float numbers[4][C];
#pragma unroll
        for (int i = 0; i < 4 * C; i++) numbers[i / C][i % C] = tile[(row + i / C) * Of<D>::STRIDE + lane + WARP * (i % C)];
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const float4 w = *reinterpret_cast<const float4 *>(spread + i * TILE + row);
#pragma unroll
            for (int c = 0; c < C; c++) {
                sums[i][c] = fmaf(w.w, numbers[3][c],
                                  fmaf(w.z, numbers[2][c], fmaf(w.y, numbers[1][c], fmaf(w.x, numbers[0][c], sums[i][c]))));
            }
        }
    }
}

template <int D>
__device__ __forceinline__ void store(Rows<float> to, const float (&sums)[Of<D>::OWN][Of<D>::C], int n_rows, int n_columns) {
#pragma unroll
    for (int i = 0; i < Of<D>::OWN; i++) {
#pragma unroll
        for (int c = 0; c < Of<D>::C; c++) {
            const int column = threadIdx.x % WARP + WARP * c;
            if (i < n_rows && column < n_columns) to.at[i * to.stride + column] = sums[i][c];
        }
    }
}

// Dropout factor of a weight.
__device__ __forceinline__ float kept(const Attention &a, const u32 *bits, u32 bit) {
    return !a.dropout.threshold ? 1.0f : bits[bit / 32] >> bit % 32 & 1 ? a.dropout.scale : 0.0f;
}

// Grid: batch · n_heads, tiles of queries (OWN per warp). Shared memory: tiles of keys, values and queries.
template <int D>
__device__ __forceinline__ void attend(const Attention &a, Rows<const float> query, Rows<const float> key,
                                       Rows<const float> value, float *out, float *logsumexp) {
    constexpr int STRIDE = Of<D>::STRIDE, OWN = Of<D>::OWN, C = Of<D>::C;
    extern __shared__ float4 memory[];
    const int rows = blockDim.x / WARP * OWN, lane = threadIdx.x % WARP, own = threadIdx.x / WARP * OWN;
    float *keys = reinterpret_cast<float *>(memory), *values = keys + TILE * STRIDE, *queries = values + TILE * STRIDE;
    float *spread = queries + rows * STRIDE + own * TILE;
    u32 *bits = reinterpret_cast<u32 *>(queries + rows * (STRIDE + TILE));
    const int row = blockIdx.x / a.n_heads, head = blockIdx.x % a.n_heads, key_head = head / (a.n_heads / a.n_key_heads);
    const int first_query = blockIdx.y * rows, exists = a.exists(row);
    query = a.head(query, u64(row) * a.q_len + first_query, head, a.d_key);
    load_tile<D>(queries, query, rows, a.q_len - first_query, a.d_key, a.wide);
    const int n_keys = a.visible(exists, min(first_query + rows, a.q_len) - 1);
    float mixed[OWN][C], maximum[OWN], sum[OWN];
    clear(mixed);
#pragma unroll
    for (int i = 0; i < OWN; i++) maximum[i] = -INFINITY_F, sum[i] = 0.0f;
    for (int first_key = 0; first_key < n_keys; first_key += TILE) {
        const u64 position = u64(row) * a.k_len + first_key;
        load_tile<D>(keys, a.head(key, position, key_head, a.d_key), TILE, n_keys - first_key, a.d_key, a.wide);
        load_tile<D>(values, a.head(value, position, key_head, a.d_value), TILE, n_keys - first_key, a.d_value, a.wide);
        const int from = first_key / 128 * 128;
        if (a.dropout.threshold && first_key == from) draw_tile(bits, a, blockIdx.x, first_query, rows, from, TILE);
        wait_copies();
        __syncthreads();
        float weights[OWN];
        dots<D>(weights, queries + own * STRIDE, keys);
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const int own_query = first_query + own + i, own_key = first_key + lane;
            const float score = own_key < a.visible(exists, own_query) ? weights[i] * a.scale : -INFINITY_F;
            const float larger = fmaxf(maximum[i], warp_max(score)), base = larger == -INFINITY_F ? 0.0f : larger;
            const float correction = expf(maximum[i] - base), weight = expf(score - base);
            sum[i] = sum[i] * correction + warp_sum(weight);
            maximum[i] = larger;
            const u32 bit = first_bit(a, blockIdx.x, first_query, own + i, from, TILE) + own_key - from;
            weights[i] = weight * kept(a, bits, bit);
#pragma unroll
            for (int c = 0; c < C; c++) mixed[i][c] *= correction;
        }
        mix<D>(mixed, weights, spread, values, n_keys - first_key);
        __syncthreads();
    }
    const int first = first_query + own;
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        const float factor = sum[i] > 0.0f ? 1.0f / sum[i] : 0.0f;
#pragma unroll
        for (int c = 0; c < C; c++) mixed[i][c] *= factor;
        if (lane == 0 && first + i < a.q_len) {
            logsumexp[u64(blockIdx.x) * a.q_len + first + i] = sum[i] > 0.0f ? maximum[i] + logf(sum[i]) : INFINITY_F;
        }
    }
    const Rows<float> all{out, u64(a.n_heads) * a.d_value};
    store<D>(a.head(all, u64(row) * a.q_len + first, head, a.d_value), mixed, a.q_len - first, a.d_value);
}

// rowsum(dO ∘ O) of the warp's queries, in every lane and in memory.
template <int D>
__device__ __forceinline__ void row_deltas(float (&own)[Of<D>::OWN], const float *d_out, Rows<const float> out, float *delta,
                                           int n_rows, int n_columns) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < Of<D>::OWN; i++) {
        float sum = 0.0f;
        for (int column = lane; column < n_columns && i < n_rows; column += WARP) {
            sum = fmaf(d_out[i * Of<D>::STRIDE + column], out.at[i * out.stride + column], sum);
        }
        own[i] = warp_sum(sum);
        if (lane == 0 && i < n_rows) delta[i] = own[i];
    }
}

// Grid: batch · n_heads, tiles of queries (OWN per warp). Shared memory: tiles of keys, values, queries and dO.
template <int D>
__device__ __forceinline__ void differentiate_queries(const Attention &a, Rows<const float> query, Rows<const float> key,
                                                      Rows<const float> value, const float *out, const float *d_out,
                                                      const float *logsumexp, float *delta, Rows<float> d_query) {
    constexpr int STRIDE = Of<D>::STRIDE, OWN = Of<D>::OWN, C = Of<D>::C;
    extern __shared__ float4 memory[];
    const int rows = blockDim.x / WARP * OWN, lane = threadIdx.x % WARP, own = threadIdx.x / WARP * OWN;
    float *keys = reinterpret_cast<float *>(memory), *values = keys + TILE * STRIDE, *queries = values + TILE * STRIDE;
    float *gradients = queries + rows * STRIDE, *spread = gradients + rows * STRIDE + own * TILE;
    u32 *bits = reinterpret_cast<u32 *>(gradients + rows * (STRIDE + TILE));
    const int row = blockIdx.x / a.n_heads, head = blockIdx.x % a.n_heads, key_head = head / (a.n_heads / a.n_key_heads);
    const int first_query = blockIdx.y * rows, first = first_query + own, exists = a.exists(row);
    const u64 block_start = u64(row) * a.q_len + first_query, sums_start = u64(blockIdx.x) * a.q_len + first;
    const Rows<const float> d_rows{d_out, u64(a.n_heads) * a.d_value}, out_rows{out, d_rows.stride};
    load_tile<D>(queries, a.head(query, block_start, head, a.d_key), rows, a.q_len - first_query, a.d_key, a.wide);
    load_tile<D>(gradients, a.head(d_rows, block_start, head, a.d_value), rows, a.q_len - first_query, a.d_value, a.wide);
    wait_copies();
    __syncthreads();
    float deltas[OWN], sums[OWN][C];
    row_deltas<D>(deltas, gradients + own * STRIDE, a.head(out_rows, block_start + own, head, a.d_value), delta + sums_start,
                  a.q_len - first, a.d_value);
    clear(sums);
    const int n_keys = a.visible(exists, min(first_query + rows, a.q_len) - 1);
    for (int first_key = 0; first_key < n_keys; first_key += TILE) {
        const u64 position = u64(row) * a.k_len + first_key;
        load_tile<D>(keys, a.head(key, position, key_head, a.d_key), TILE, n_keys - first_key, a.d_key, a.wide);
        load_tile<D>(values, a.head(value, position, key_head, a.d_value), TILE, n_keys - first_key, a.d_value, a.wide);
        const int from = first_key / 128 * 128;
        if (a.dropout.threshold && first_key == from) draw_tile(bits, a, blockIdx.x, first_query, rows, from, TILE);
        wait_copies();
        __syncthreads();
        float scores[OWN], gradient[OWN];
        dots<D>(scores, queries + own * STRIDE, keys);
        dots<D>(gradient, gradients + own * STRIDE, values);
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const int own_key = first_key + lane;
            if (own_key < a.visible(exists, first + i)) {
                const float weight = expf(scores[i] * a.scale - logsumexp[sums_start + i]);
                const u32 bit = first_bit(a, blockIdx.x, first_query, own + i, from, TILE) + own_key - from;
                gradient[i] = a.scale * weight * (gradient[i] * kept(a, bits, bit) - deltas[i]);
            } else {
                gradient[i] = 0.0f;
            }
        }
        mix<D>(sums, gradient, spread, keys, n_keys - first_key);
        __syncthreads();
    }
    store<D>(a.head(d_query, block_start + own, head, a.d_key), sums, a.q_len - first, a.d_key);
}

// Grid: batch · n_key_heads, tiles of keys (OWN per warp). Shared memory: tiles of queries, dO, keys and values. Runs
// after the kernel above, which writes delta. A lane has a query.
template <int D>
__device__ __forceinline__ void differentiate_keys(const Attention &a, Rows<const float> query, Rows<const float> key,
                                                   Rows<const float> value, const float *d_out, const float *logsumexp,
                                                   const float *delta, Rows<float> d_key, Rows<float> d_value) {
    constexpr int STRIDE = Of<D>::STRIDE, OWN = Of<D>::OWN, C = Of<D>::C;
    extern __shared__ float4 memory[];
    const int rows = blockDim.x / WARP * OWN, lane = threadIdx.x % WARP, own = threadIdx.x / WARP * OWN;
    float *queries = reinterpret_cast<float *>(memory), *gradients = queries + TILE * STRIDE;
    float *keys = gradients + TILE * STRIDE, *values = keys + rows * STRIDE, *spread = values + rows * STRIDE + own * TILE;
    u32 *bits = reinterpret_cast<u32 *>(values + rows * (STRIDE + TILE));
    const int row = blockIdx.x / a.n_key_heads, key_head = blockIdx.x % a.n_key_heads, group = a.n_heads / a.n_key_heads;
    const int first_key = blockIdx.y * rows, exists = a.exists(row);
    const u64 position = u64(row) * a.k_len + first_key;
    load_tile<D>(keys, a.head(key, position, key_head, a.d_key), rows, exists - first_key, a.d_key, a.wide);
    load_tile<D>(values, a.head(value, position, key_head, a.d_value), rows, exists - first_key, a.d_value, a.wide);
    float key_sums[OWN][C], value_sums[OWN][C];
    clear(key_sums);
    clear(value_sums);
    // Earlier queries attend to none of the block's keys; keys beyond the length are visible to none.
    const int first_seeing = a.causal ? max(first_key + a.q_len - a.k_len, 0) : 0;
    const int end = first_key < exists ? a.q_len : 0;
    for (int head = key_head * group; head < (key_head + 1) * group; head++) {
        const u64 index = u64(row) * a.n_heads + head;
        const Rows<const float> d_rows{d_out, u64(a.n_heads) * a.d_value};
        for (int first_query = first_seeing; first_query < end; first_query += TILE) {
            const u64 start = u64(row) * a.q_len + first_query;
            const int left = a.q_len - first_query;
            load_tile<D>(queries, a.head(query, start, head, a.d_key), TILE, left, a.d_key, a.wide);
            load_tile<D>(gradients, a.head(d_rows, start, head, a.d_value), TILE, left, a.d_value, a.wide);
            if (a.dropout.threshold) draw_tile(bits, a, index, first_query, TILE, first_key, rows);
            wait_copies();
            __syncthreads();
            const int own_query = first_query + lane, visible = a.visible(exists, own_query);
            const u64 at = index * a.q_len + min(own_query, a.q_len - 1);
            const float own_sum = logsumexp[at], own_delta = delta[at];
            const u32 bit = first_bit(a, index, first_query, lane, first_key, rows);
            float weights[OWN], gradient[OWN];
            dots<D>(weights, keys + own * STRIDE, queries);
            dots<D>(gradient, values + own * STRIDE, gradients);
#pragma unroll
            for (int i = 0; i < OWN; i++) {
                const int own_key = first_key + own + i;
                const bool seen = own_key < visible;
                const float weight = seen ? expf(weights[i] * a.scale - own_sum) : 0.0f;
                const float factor = seen ? kept(a, bits, bit + own + i) : 0.0f;
                gradient[i] = seen ? a.scale * weight * (gradient[i] * factor - own_delta) : 0.0f;
                weights[i] = weight * factor;
            }
            mix<D>(value_sums, weights, spread, gradients, left);
            mix<D>(key_sums, gradient, spread, queries, left);
            __syncthreads();
        }
    }
    const int left = a.k_len - first_key - own;
    store<D>(a.head(d_key, position + own, key_head, a.d_key), key_sums, left, a.d_key);
    store<D>(a.head(d_value, position + own, key_head, a.d_value), value_sums, left, a.d_value);
}

#define INPUTS                                                                                                             \
    const float *query, u32 query_stride, const float *key, u32 key_stride, const float *value, u32 value_stride
#define SIDES {query, query_stride}, {key, key_stride}, {value, value_stride}

#define INSTANCE(D)                                                                                                        \
    extern "C" __global__ void __launch_bounds__(128)                                                                      \
        attention_forward_f32_##D(INPUTS, float *out, float *logsumexp, ATTENTION_PARAMETERS) {                            \
        attend<D>(ATTENTION, SIDES, out, logsumexp);                                                                       \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(128) attention_queries_f32_##D(                                           \
        INPUTS, const float *out, const float *d_out, const float *logsumexp, float *delta, float *d_query,                \
        u32 d_query_stride, ATTENTION_PARAMETERS) {                                                                        \
        differentiate_queries<D>(ATTENTION, SIDES, out, d_out, logsumexp, delta, {d_query, d_query_stride});               \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(128) attention_keys_f32_##D(                                              \
        INPUTS, const float *d_out, const float *logsumexp, const float *delta, float *d_key, u32 d_key_stride,            \
        float *d_value, u32 d_value_stride, ATTENTION_PARAMETERS) {                                                        \
        differentiate_keys<D>(ATTENTION, SIDES, d_out, logsumexp, delta, {d_key, d_key_stride},                            \
                                     {d_value, d_value_stride});                                                           \
    }

INSTANCE(32)
INSTANCE(64)
INSTANCE(128)
INSTANCE(256)
