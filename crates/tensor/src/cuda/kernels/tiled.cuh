// Common beginning of the tiled attention kernels, after prelude.cuh: the visible band of keys, staged tiles, dropout
// bits read from memory, softmax without rescaling at every tile.

// Sizes and options of one attention, the same for every head; passed by the host.
struct Band {
    int q_len, k_len, n_heads, n_key_heads, d_key, d_value;
    // A query at position p attends to keys from p − before to p + after; the last query is at the last key.
    int before, after;
    float scale;
    // Number of keys in each row of the batch that are not padding; all if null.
    const u32 *key_lengths;
    // One bit per weight, at its dropout index: 1 if it is kept; nothing is dropped if null.
    const u32 *bits;
    float keep_scale;

    __device__ __forceinline__ int exists(int row) const {
        return key_lengths ? min(int(key_lengths[row]), k_len) : k_len;
    }
    // First key that a query attends to, and the key after the last; neither decreases from query to query.
    __device__ __forceinline__ int begin(int query) const { return max(query + k_len - q_len - before, 0); }
    __device__ __forceinline__ int end(int exists, int query) const {
        return max(min(exists, query + 1 + k_len - q_len + after), 0);
    }
    // Dropout index of a query's weight for key 0; `head` counts through rows of the batch and heads.
    __device__ __forceinline__ u64 weight(u64 head, int query) const { return (head * q_len + query) * k_len; }
    template <typename T>
    __device__ __forceinline__ Rows<T> head(Rows<T> all, u64 position, int head, int d_head) const {
        return Rows<T>{all.at + position * all.stride + u64(head) * d_head, all.stride};
    }
};

#define BAND_PARAMETERS                                                                                                    \
    u32 q_len, u32 k_len, u32 n_heads, u32 n_key_heads, u32 key_size, u32 value_size, u32 before, u32 after, float scale,  \
        const u32 *key_lengths, const u32 *bits, float keep_scale
#define BAND                                                                                                               \
    Band {                                                                                                                 \
        int(q_len), int(k_len), int(n_heads), int(n_key_heads), int(key_size), int(value_size), int(before), int(after),   \
            scale, key_lengths, bits, keep_scale                                                                           \
    }

// 64 dropout bits from the weight at `index`; the host allocates four words more than are drawn.
__device__ __forceinline__ u64 kept(const u32 *bits, u64 index) {
    const u32 *at = bits + index / 32;
    const u32 shift = u32(index % 32);
    const u32 low = __funnelshift_r(at[0], at[1], shift), high = __funnelshift_r(at[1], at[2], shift);
    return u64(high) << 32 | low;
}
// The same, 32 bits.
__device__ __forceinline__ u32 kept_word(const u32 *bits, u64 index) {
    const u32 *at = bits + index / 32;
    return __funnelshift_r(at[0], at[1], u32(index % 32));
}

// Copies ROWS rows of D columns to a tile, asynchronously, by THREADS threads; rows from n_rows and columns from
// n_columns become 0.
template <int D, int ROWS, int THREADS>
__device__ __forceinline__ void stage_tile(bf16 *tile, Rows<const bf16> from, int n_rows, int n_columns) {
    constexpr int CHUNKS = D / 8, STEP = THREADS / CHUNKS;
    const int row = threadIdx.x / CHUNKS, column = threadIdx.x % CHUNKS * 8;
    const bf16 *source = from.at + row * from.stride + column;
    bf16 *to = tile + row * (D + TILE_PADDING) + column;
    const int last = column < n_columns ? n_rows : 0;
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP) {
        const bool real = row + i < last;
        copy_async(to + i * (D + TILE_PADDING), real ? source + i * from.stride : from.at, real);
    }
}

// Copies 4 bytes from global to shared memory, asynchronously.
__device__ __forceinline__ void copy_async_word(float *to, const float *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

// The sixteen rows from `tile` as left operands, one for each 16 columns.
template <int D> __device__ __forceinline__ void load_left(u32 (&out)[D / 16][4], const bf16 *tile) {
#pragma unroll
    for (int inner = 0; inner < D / 16; inner++) load_matrices(out[inner], down<D + TILE_PADDING>(tile) + inner * 16);
}

// Sums of 16 × 16, two tiles of eight columns, as a left operand.
__device__ __forceinline__ void pack_left(u32 (&out)[4], const float (&a)[4], const float (&b)[4]) {
    out[0] = pack_bf16(a[0], a[1]);
    out[1] = pack_bf16(a[2], a[3]);
    out[2] = pack_bf16(b[0], b[1]);
    out[3] = pack_bf16(b[2], b[3]);
}

// Sum over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}

// rowsum(dO ∘ O) of the thread's two queries from `query`, for dO as left operands.
template <int D>
__device__ __forceinline__ void row_deltas(float (&delta)[2], const u32 (&d_out)[D / 16][4], Rows<const bf16> out, int n_rows,
                                           int n_columns) {
    const int row = threadIdx.x % WARP / 4, column = threadIdx.x % 4 * 2;
    delta[0] = delta[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < D / 4; i++) {
        // Of four words two are rows below, two are columns on the right.
        const int at_row = row + i % 2 * 8, at_column = column + i / 2 * 8;
        if (at_row >= n_rows || at_column >= n_columns) continue;
        const u32 word = *reinterpret_cast<const u32 *>(out.at + at_row * out.stride + at_column), other = d_out[i / 4][i % 4];
        delta[i % 2] += low_bf16(word) * low_bf16(other) + high_bf16(word) * high_bf16(other);
    }
    delta[0] = row_sum(delta[0]);
    delta[1] = row_sum(delta[1]);
}

// A base of weights that any score exceeds: nothing is visible so far.
#define NO_BASE -1e30f
// Weights may grow to 2⁸ before sums are rescaled to a new base.
#define HEADROOM 8.0f

// Overwrites scores by −∞ outside the bands of the thread's two queries, the first of which is `query`; `first_key` is
// the key of the thread's first score.
template <int KEYS>
__device__ __forceinline__ void hide(float (&scores)[KEYS / 8][4], const Band &a, int exists, int query, int first_key) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int begin = a.begin(query + 8 * half) - first_key, end = a.end(exists, query + 8 * half) - first_key;
#pragma unroll
        for (int i = 0; i < KEYS / 4; i++) {
            const int key = i / 2 * 8 + i % 2;
            if (key < begin || key >= end) scores[i / 2][2 * half + i % 2] = -INFINITY_F;
        }
    }
}

// State of a thread's two queries, lane / 4 and lane / 4 + 8 of sixteen: base-2 logarithm that weights are relative to,
// and their sum over the thread's keys.
struct Running {
    float base[2], sum[2];
};

// Turns scores into weights. Sums of weights are rescaled only if a score exceeds the base by much, which any lane of
// the warp may find; the weights, and so the result, are the same up to rounding (a threshold as in FlashAttention-4).
template <int D, int KEYS>
__device__ __forceinline__ void weigh(float (&scores)[KEYS / 8][4], float (&mixed)[D / 8][4], Running &q, float scale) {
    float maximum[2] = {-INFINITY_F, -INFINITY_F};
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) maximum[i / 2 % 2] = fmaxf(maximum[i / 2 % 2], scores[i / 4][i % 4]);
    maximum[0] *= scale;
    maximum[1] *= scale;
    if (__any_sync(ALL_LANES, maximum[0] > q.base[0] + HEADROOM || maximum[1] > q.base[1] + HEADROOM)) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float base = fmaxf(maximum[half], __shfl_xor_sync(ALL_LANES, maximum[half], 1));
            base = fmaxf(base, __shfl_xor_sync(ALL_LANES, base, 2));
            base = fmaxf(base, q.base[half]);
            const float correction = power_of_two(q.base[half] - base);
            q.base[half] = base;
            q.sum[half] *= correction;
#pragma unroll
            for (int i = 0; i < D / 4; i++) mixed[i / 2][2 * half + i % 2] *= correction;
        }
    }
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) {
        float &score = scores[i / 4][i % 4];
        score = power_of_two(fmaf(score, scale, -q.base[i / 2 % 2]));
        q.sum[i / 2 % 2] += score;
    }
}

// Sets weights to 0 whose dropout bit is 0; `keep` has the bits of the thread's two queries from its first column.
template <int KEYS> __device__ __forceinline__ void drop(float (*weights)[4], const u64 (&keep)[2]) {
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) {
        const int key = i / 4 * 8 + i % 2;
        if (!(keep[i / 2 % 2] >> key & 1)) weights[i / 4][i % 4] = 0.0f;
    }
}

// Divides the mixed values by the sums of weights, and writes the logsumexp of the thread's two queries from `query`.
template <int D>
__device__ __forceinline__ void finish(float (&mixed)[D / 8][4], const Band &a, const Running &q, float *logsumexp, int query) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float sum = row_sum(q.sum[half]);
        const float factor = sum > 0.0f ? a.keep_scale / sum : 0.0f;
#pragma unroll
        for (int i = 0; i < D / 4; i++) mixed[i / 2][2 * half + i % 2] *= factor;
        if (threadIdx.x % 4 == 0 && query + 8 * half < a.q_len) {
            logsumexp[query + 8 * half] = sum > 0.0f ? q.base[half] / LOG2_E + logf(sum) : INFINITY_F;
        }
    }
}
