// Attention forward and backward in f32, sums and products in f32 throughout, for any lengths.
//
// Equations as in attention_forward.cu and attention_backward.cu. A warp has four rows of one side (queries; keys for dK and
// dV) and goes through the other side in tiles of 32 in shared memory, a lane for each: `dots` gives each lane the
// products of the four rows with its own, `mix` adds up the tile's rows by the lanes' weights, each lane its own columns.
// Heads are filled up with zeros to 32·C columns.

#define OWN 4
#define TILE 32

// Rows are padded so that lanes which read different rows at the same column use different banks.
template <int C> struct Tile { static constexpr int STRIDE = WARP * C + 4; };

// `rows` rows of a head into a tile by the whole block; what is not there becomes 0.
template <int C>
__device__ __forceinline__ void load_tile(float *tile, Rows<const float> from, int rows, int n_rows, int n_columns) {
    for (int i = threadIdx.x; i < rows * WARP * C; i += blockDim.x) {
        const int row = i / (WARP * C), column = i % (WARP * C);
        const bool real = row < n_rows && column < n_columns;
        tile[row * Tile<C>::STRIDE + column] = real ? from.at[row * from.stride + column] : 0.0f;
    }
}

// Products of the warp's four rows with this lane's row of the tile.
template <int C> __device__ __forceinline__ void dots(float (&out)[OWN], const float *own, const float *tile) {
    const float *row = tile + threadIdx.x % WARP * Tile<C>::STRIDE;
#pragma unroll
    for (int i = 0; i < OWN; i++) out[i] = 0.0f;
#pragma unroll 4
    for (int column = 0; column < WARP * C; column += 4) {
        const float4 x = *reinterpret_cast<const float4 *>(row + column);
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const float4 y = *reinterpret_cast<const float4 *>(own + i * Tile<C>::STRIDE + column);
            out[i] = fmaf(x.x, y.x, fmaf(x.y, y.y, fmaf(x.z, y.z, fmaf(x.w, y.w, out[i]))));
        }
    }
}

// sums += weights · tile; lane j has the weights of row j. A lane has columns lane, lane + 32, …
template <int C>
__device__ __forceinline__ void mix(float (&sums)[OWN][C], const float (&weights)[OWN], const float *tile, int n_rows) {
    const int lane = threadIdx.x % WARP;
    for (int row = 0; row < min(n_rows, TILE); row++) {
        float numbers[C];
#pragma unroll
        for (int c = 0; c < C; c++) numbers[c] = tile[row * Tile<C>::STRIDE + lane + WARP * c];
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const float weight = __shfl_sync(ALL_LANES, weights[i], row);
#pragma unroll
            for (int c = 0; c < C; c++) sums[i][c] = fmaf(weight, numbers[c], sums[i][c]);
        }
    }
}

template <int C>
__device__ __forceinline__ void store(Rows<float> to, const float (&sums)[OWN][C], int n_rows, int n_columns) {
#pragma unroll
    for (int i = 0; i < OWN; i++) {
#pragma unroll
        for (int c = 0; c < C; c++) {
            const int column = threadIdx.x % WARP + WARP * c;
            if (i < n_rows && column < n_columns) to.at[i * to.stride + column] = sums[i][c];
        }
    }
}

// What a weight is multiplied with by dropout.
__device__ __forceinline__ float kept(const Attention &a, uint2 key, u64 index) {
    return !a.dropout.threshold ? 1.0f : keeps(a.dropout, key, index) ? a.dropout.scale : 0.0f;
}

// Grid: batch · n_heads, tiles of queries (four a warp). Shared memory: tiles of keys, values and queries.
template <int C>
__device__ __forceinline__ void attend(const Attention &a, Rows<const float> query, Rows<const float> key,
                                       Rows<const float> value, float *out, float *logsumexp) {
    constexpr int STRIDE = Tile<C>::STRIDE;
    extern __shared__ float4 memory[];
    const int rows = blockDim.x / WARP * OWN, lane = threadIdx.x % WARP, own = threadIdx.x / WARP * OWN;
    float *keys = reinterpret_cast<float *>(memory), *values = keys + TILE * STRIDE, *queries = values + TILE * STRIDE;
    const int row = blockIdx.x / a.n_heads, head = blockIdx.x % a.n_heads, key_head = head / (a.n_heads / a.n_key_heads);
    const int first_query = blockIdx.y * rows, exists = a.exists(row);
    query = a.head(query, u64(row) * a.q_len + first_query, head, a.d_key);
    load_tile<C>(queries, query, rows, a.q_len - first_query, a.d_key);
    const int n_keys = a.visible(exists, min(first_query + rows, a.q_len) - 1);
    const uint2 drop_key = a.dropout.threshold ? dropout_key(a.dropout) : make_uint2(0, 0);
    float mixed[OWN][C], maximum[OWN], sum[OWN];
    clear(mixed);
#pragma unroll
    for (int i = 0; i < OWN; i++) maximum[i] = -INFINITY_F, sum[i] = 0.0f;
    for (int first_key = 0; first_key < n_keys; first_key += TILE) {
        const u64 position = u64(row) * a.k_len + first_key;
        load_tile<C>(keys, a.head(key, position, key_head, a.d_key), TILE, n_keys - first_key, a.d_key);
        load_tile<C>(values, a.head(value, position, key_head, a.d_value), TILE, n_keys - first_key, a.d_value);
        __syncthreads();
        float weights[OWN];
        dots<C>(weights, queries + own * STRIDE, keys);
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const int own_query = first_query + own + i, own_key = first_key + lane;
            const float score = own_key < a.visible(exists, own_query) ? weights[i] * a.scale : -INFINITY_F;
            const float larger = fmaxf(maximum[i], warp_max(score)), base = larger == -INFINITY_F ? 0.0f : larger;
            const float correction = expf(maximum[i] - base), weight = expf(score - base);
            sum[i] = sum[i] * correction + warp_sum(weight);
            maximum[i] = larger;
            weights[i] = weight > 0.0f ? weight * kept(a, drop_key, a.weight(blockIdx.x, own_query) + own_key) : 0.0f;
#pragma unroll
            for (int c = 0; c < C; c++) mixed[i][c] *= correction;
        }
        mix<C>(mixed, weights, values, n_keys - first_key);
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
    store<C>(a.head(all, u64(row) * a.q_len + first, head, a.d_value), mixed, a.q_len - first, a.d_value);
}

// rowsum(dO ∘ O) of the warp's four queries, for every lane and into memory.
template <int C>
__device__ __forceinline__ void row_deltas(float (&own)[OWN], const float *d_out, Rows<const float> out, float *delta,
                                           int n_rows, int n_columns) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        float sum = 0.0f;
        for (int column = lane; column < n_columns && i < n_rows; column += WARP) {
            sum = fmaf(d_out[i * Tile<C>::STRIDE + column], out.at[i * out.stride + column], sum);
        }
        own[i] = warp_sum(sum);
        if (lane == 0 && i < n_rows) delta[i] = own[i];
    }
}

// Grid: batch · n_heads, tiles of queries (four a warp). Shared memory: tiles of keys, values, queries and dO.
template <int C>
__device__ __forceinline__ void differentiate_queries(const Attention &a, Rows<const float> query, Rows<const float> key,
                                                      Rows<const float> value, const float *out, const float *d_out,
                                                      const float *logsumexp, float *delta, Rows<float> d_query) {
    constexpr int STRIDE = Tile<C>::STRIDE;
    extern __shared__ float4 memory[];
    const int rows = blockDim.x / WARP * OWN, lane = threadIdx.x % WARP, own = threadIdx.x / WARP * OWN;
    float *keys = reinterpret_cast<float *>(memory), *values = keys + TILE * STRIDE, *queries = values + TILE * STRIDE;
    float *gradients = queries + rows * STRIDE;
    const int row = blockIdx.x / a.n_heads, head = blockIdx.x % a.n_heads, key_head = head / (a.n_heads / a.n_key_heads);
    const int first_query = blockIdx.y * rows, first = first_query + own, exists = a.exists(row);
    const u64 block_start = u64(row) * a.q_len + first_query, sums_start = u64(blockIdx.x) * a.q_len + first;
    const Rows<const float> d_rows{d_out, u64(a.n_heads) * a.d_value}, out_rows{out, d_rows.stride};
    load_tile<C>(queries, a.head(query, block_start, head, a.d_key), rows, a.q_len - first_query, a.d_key);
    load_tile<C>(gradients, a.head(d_rows, block_start, head, a.d_value), rows, a.q_len - first_query, a.d_value);
    __syncthreads();
    float deltas[OWN], sums[OWN][C];
    row_deltas<C>(deltas, gradients + own * STRIDE, a.head(out_rows, block_start + own, head, a.d_value), delta + sums_start,
                  a.q_len - first, a.d_value);
    clear(sums);
    const int n_keys = a.visible(exists, min(first_query + rows, a.q_len) - 1);
    const uint2 drop_key = a.dropout.threshold ? dropout_key(a.dropout) : make_uint2(0, 0);
    for (int first_key = 0; first_key < n_keys; first_key += TILE) {
        const u64 position = u64(row) * a.k_len + first_key;
        load_tile<C>(keys, a.head(key, position, key_head, a.d_key), TILE, n_keys - first_key, a.d_key);
        load_tile<C>(values, a.head(value, position, key_head, a.d_value), TILE, n_keys - first_key, a.d_value);
        __syncthreads();
        float scores[OWN], gradient[OWN];
        dots<C>(scores, queries + own * STRIDE, keys);
        dots<C>(gradient, gradients + own * STRIDE, values);
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const int own_key = first_key + lane;
            if (own_key < a.visible(exists, first + i)) {
                const float weight = expf(scores[i] * a.scale - logsumexp[sums_start + i]);
                const float factor = kept(a, drop_key, a.weight(blockIdx.x, first + i) + own_key);
                gradient[i] = a.scale * weight * (gradient[i] * factor - deltas[i]);
            } else {
                gradient[i] = 0.0f;
            }
        }
        mix<C>(sums, gradient, keys, n_keys - first_key);
        __syncthreads();
    }
    store<C>(a.head(d_query, block_start + own, head, a.d_key), sums, a.q_len - first, a.d_key);
}

// Grid: batch · n_key_heads, tiles of keys (four a warp). Shared memory: tiles of queries, dO, keys and values. Runs after
// the kernel above, which makes delta. A lane has a query.
template <int C>
__device__ __forceinline__ void differentiate_keys(const Attention &a, Rows<const float> query, Rows<const float> key,
                                                   Rows<const float> value, const float *d_out, const float *logsumexp,
                                                   const float *delta, Rows<float> d_key, Rows<float> d_value) {
    constexpr int STRIDE = Tile<C>::STRIDE;
    extern __shared__ float4 memory[];
    const int rows = blockDim.x / WARP * OWN, lane = threadIdx.x % WARP, own = threadIdx.x / WARP * OWN;
    float *queries = reinterpret_cast<float *>(memory), *gradients = queries + TILE * STRIDE;
    float *keys = gradients + TILE * STRIDE, *values = keys + rows * STRIDE;
    const int row = blockIdx.x / a.n_key_heads, key_head = blockIdx.x % a.n_key_heads, group = a.n_heads / a.n_key_heads;
    const int first_key = blockIdx.y * rows, exists = a.exists(row);
    const u64 position = u64(row) * a.k_len + first_key;
    load_tile<C>(keys, a.head(key, position, key_head, a.d_key), rows, exists - first_key, a.d_key);
    load_tile<C>(values, a.head(value, position, key_head, a.d_value), rows, exists - first_key, a.d_value);
    const uint2 drop_key = a.dropout.threshold ? dropout_key(a.dropout) : make_uint2(0, 0);
    float key_sums[OWN][C], value_sums[OWN][C];
    clear(key_sums);
    clear(value_sums);
    // Queries before this one see none of the block's keys; nobody sees keys that do not exist.
    const int first_seeing = a.causal ? max(first_key + a.q_len - a.k_len, 0) : 0;
    const int end = first_key < exists ? a.q_len : 0;
    for (int head = key_head * group; head < (key_head + 1) * group; head++) {
        const u64 index = u64(row) * a.n_heads + head;
        const Rows<const float> d_rows{d_out, u64(a.n_heads) * a.d_value};
        for (int first_query = first_seeing; first_query < end; first_query += TILE) {
            const u64 start = u64(row) * a.q_len + first_query;
            const int left = a.q_len - first_query;
            load_tile<C>(queries, a.head(query, start, head, a.d_key), TILE, left, a.d_key);
            load_tile<C>(gradients, a.head(d_rows, start, head, a.d_value), TILE, left, a.d_value);
            __syncthreads();
            const int own_query = first_query + lane, visible = a.visible(exists, own_query);
            const u64 at = index * a.q_len + min(own_query, a.q_len - 1);
            const float own_sum = logsumexp[at], own_delta = delta[at];
            float weights[OWN], gradient[OWN];
            dots<C>(weights, keys + own * STRIDE, queries);
            dots<C>(gradient, values + own * STRIDE, gradients);
#pragma unroll
            for (int i = 0; i < OWN; i++) {
                const int own_key = first_key + own + i;
                const bool seen = own_key < visible;
                const float weight = seen ? expf(weights[i] * a.scale - own_sum) : 0.0f;
                const float factor = seen ? kept(a, drop_key, a.weight(index, own_query) + own_key) : 0.0f;
                gradient[i] = seen ? a.scale * weight * (gradient[i] * factor - own_delta) : 0.0f;
                weights[i] = weight * factor;
            }
            mix<C>(value_sums, weights, gradients, left);
            mix<C>(key_sums, gradient, queries, left);
            __syncthreads();
        }
    }
    const int left = a.k_len - first_key - own;
    store<C>(a.head(d_key, position + own, key_head, a.d_key), key_sums, left, a.d_key);
    store<C>(a.head(d_value, position + own, key_head, a.d_value), value_sums, left, a.d_value);
}

#define INPUTS                                                                                                              \
    const float *query, u32 query_stride, const float *key, u32 key_stride, const float *value, u32 value_stride
#define SIDES {query, query_stride}, {key, key_stride}, {value, value_stride}

#define INSTANCE(D)                                                                                                         \
    extern "C" __global__ void __launch_bounds__(128)                                                                        \
        attention_forward_f32_##D(INPUTS, float *out, float *logsumexp, ATTENTION_PARAMETERS) {                              \
        attend<D / WARP>(ATTENTION, SIDES, out, logsumexp);                                                                  \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(128) attention_queries_f32_##D(                                             \
        INPUTS, const float *out, const float *d_out, const float *logsumexp, float *delta, float *d_query,                  \
        u32 d_query_stride, ATTENTION_PARAMETERS) {                                                                          \
        differentiate_queries<D / WARP>(ATTENTION, SIDES, out, d_out, logsumexp, delta, {d_query, d_query_stride});          \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(128) attention_keys_f32_##D(                                                \
        INPUTS, const float *d_out, const float *logsumexp, const float *delta, float *d_key, u32 d_key_stride,              \
        float *d_value, u32 d_value_stride, ATTENTION_PARAMETERS) {                                                          \
        differentiate_keys<D / WARP>(ATTENTION, SIDES, d_out, logsumexp, delta, {d_key, d_key_stride},                       \
                                     {d_value, d_value_stride});                                                             \
    }

INSTANCE(32)
INSTANCE(64)
INSTANCE(128)
INSTANCE(256)
