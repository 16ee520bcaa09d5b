// Common beginning of every kernel file: types, conversions, loads of eight values, sums over a warp or a block,
// Philox.
//
// No header of the toolkit is used, so a machine with only a driver and NVRTC compiles it. Sums have a fixed order and
// never use atomics: the same input gives the same bits.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define INFINITY_F __int_as_float(0x7f800000)
#define WARP 32
#define ALL_LANES 0xffffffffu

// bf16: the upper half of an f32.
struct bf16 { u16 bits; };

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }

template <typename T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

// Packs two values into a word, the first in the low half.
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
__device__ __forceinline__ float low_bf16(u32 word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_bf16(u32 word) { return __uint_as_float(word & 0xffff0000u); }

// Eight consecutive values, aligned to their size (16 bytes of bf16, 32 bytes of f32).
struct Eight { float x[8]; };

__device__ __forceinline__ Eight load8(const bf16 *from) {
    const uint4 words = *reinterpret_cast<const uint4 *>(from);
    return Eight{{low_bf16(words.x), high_bf16(words.x), low_bf16(words.y), high_bf16(words.y), low_bf16(words.z),
                  high_bf16(words.z), low_bf16(words.w), high_bf16(words.w)}};
}
__device__ __forceinline__ Eight load8(const float *from) {
    const float4 a = reinterpret_cast<const float4 *>(from)[0], b = reinterpret_cast<const float4 *>(from)[1];
    return Eight{{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
__device__ __forceinline__ void store8(bf16 *to, const Eight &v) {
    *reinterpret_cast<uint4 *>(to) = make_uint4(pack_bf16(v.x[0], v.x[1]), pack_bf16(v.x[2], v.x[3]),
                                                pack_bf16(v.x[4], v.x[5]), pack_bf16(v.x[6], v.x[7]));
}
__device__ __forceinline__ void store8(float *to, const Eight &v) {
    reinterpret_cast<float4 *>(to)[0] = make_float4(v.x[0], v.x[1], v.x[2], v.x[3]);
    reinterpret_cast<float4 *>(to)[1] = make_float4(v.x[4], v.x[5], v.x[6], v.x[7]);
}

// Sum and maximum over a warp, in every lane; the tree is always the same.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

// The same over a block of at most 1024 threads, a multiple of 32; `scratch` has 32 floats of its own.
__device__ __forceinline__ float block_sum(float x, float *scratch) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? scratch[lane] : 0.0f);
}
__device__ __forceinline__ float block_max(float x, float *scratch) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    return warp_max(lane < warps ? scratch[lane] : -INFINITY_F);
}

// Philox4x32-10 (Salmon et al. 2011), as in the crate `random`.
__device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const u32 left_high = __umulhi(0xD2511F53u, counter.x), left_low = 0xD2511F53u * counter.x;
        const u32 right_high = __umulhi(0xCD9E8D57u, counter.z), right_low = 0xCD9E8D57u * counter.z;
        counter = make_uint4(right_high ^ counter.y ^ key.x, right_low, left_high ^ counter.w ^ key.y, left_low);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return counter;
}

// A dropout mask. The key of a step is in memory, so that a recorded graph can be replayed for another step; or it is
// in `key` if `key_at` is null. A value is dropped if its sixteen bits are below `threshold`; 0 drops nothing.
struct Dropout {
    const u32 *key_at;
    u32 key[2];
    u32 site[2];
    u32 threshold;
    float scale;
};

__device__ __forceinline__ uint2 dropout_key(const Dropout &d) {
    return d.key_at ? make_uint2(d.key_at[0], d.key_at[1]) : make_uint2(d.key[0], d.key[1]);
}

// Which of eight values are kept, one bit each: those with indices 128·block + lane + 16·j, j = 0 … 7, for counter
// 16·block + lane. Value i of a block of 128 takes half a word of counter i mod 16, as on the CPU.
__device__ __forceinline__ u32 keep_bits(const Dropout &d, uint2 key, u64 counter) {
    const uint4 words = philox(make_uint4(u32(counter), u32(counter >> 32), d.site[0], d.site[1]), key);
    const u32 all[4] = {words.x, words.y, words.z, words.w};
    u32 bits = 0;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const u32 drawn = (all[j / 2] >> (j % 2 * 16)) & 0xffffu;
        bits |= u32(drawn >= d.threshold) << j;
    }
    return bits;
}

// True if the value at `index` is kept: slow, one Philox per value.
__device__ __forceinline__ bool keeps(const Dropout &d, uint2 key, u64 index) {
    const u32 within = u32(index % 128);
    return keep_bits(d, key, index / 128 * 16 + within % 16) >> (within / 16) & 1;
}

// Fast variant for a whole warp whose thread t holds the values first + 8t … first + 8t + 7, `first` a multiple of 256:
// one Philox per thread, exchanged by ballots. Bit i of the result: value first + 8t + i is kept. All lanes take part.
__device__ __forceinline__ u32 warp_keep_bits(const Dropout &d, uint2 key, u64 first) {
    const u32 lane = threadIdx.x % WARP;
    const u32 own = keep_bits(d, key, first / 128 * 16 + lane);
    // Thread t of a half-warp needs j = t / 2, lanes 8·(t mod 2) … + 7 of its own half.
    const u32 wanted = lane % 16 / 2;
    u32 chosen = 0;
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
        const u32 all = __ballot_sync(ALL_LANES, own >> j & 1);
        chosen = j == wanted ? all : chosen;
    }
    return chosen >> (lane / 16 * 16 + lane % 2 * 8) & 0xffu;
}

// The same if `first` is only a multiple of 8: the 256 values may touch a third block of 128, drawn by a second Philox.
__device__ __forceinline__ u32 warp_keep_bits_from(const Dropout &d, uint2 key, u64 first) {
    if (first % 128 == 0) return warp_keep_bits(d, key, first);
    const u32 lane = threadIdx.x % WARP, at = u32(first % 128) + 8 * lane;
    const u64 counter = first / 128 * 16 + lane;
    const u32 near = keep_bits(d, key, counter), far = keep_bits(d, key, counter + WARP);
    const u32 wanted = at % 128 / 16;
    u32 chosen = 0;
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
        const u32 low = __ballot_sync(ALL_LANES, near >> j & 1), high = __ballot_sync(ALL_LANES, far >> j & 1);
        chosen = j == wanted ? (at < 256 ? low : high) : chosen;
    }
    return chosen >> (at / 128 % 2 * 16 + at % 16) & 0xffu;
}

// Eight values of which `count` (0 … 8) may be accessed, the others read as 0; fast if all exist and are aligned.
template <typename T> __device__ __forceinline__ Eight load_some(const T *from, u32 count) {
    if (count >= 8 && reinterpret_cast<u64>(from) % 16 == 0) return load8(from);
    Eight v;
#pragma unroll
    for (u32 i = 0; i < 8; i++) v.x[i] = i < count ? to_float(from[i]) : 0.0f;
    return v;
}
template <typename T> __device__ __forceinline__ void store_some(T *to, const Eight &v, u32 count) {
    if (count >= 8 && reinterpret_cast<u64>(to) % 16 == 0) return store8(to, v);
#pragma unroll
    for (u32 i = 0; i < 8; i++)
        if (i < count) to[i] = from_float<T>(v.x[i]);
}

// Number of the eight values from `at` that lie before `end`.
__device__ __forceinline__ u32 some(u64 at, u64 end) { return at >= end ? 0u : end - at < 8 ? u32(end - at) : 8u; }

// ---- Tiles for tensor cores: bf16 in shared memory, products of 16 × 8 × 16 with sums in f32 (sm_80 and later). ----
//
// A tile is a matrix in shared memory whose rows are padded by 8 values: then the eight rows that one ldmatrix reads
// are in different banks. In a product a thread holds, of 16 × 8 sums, those of rows lane / 4 and lane / 4 + 8, columns
// 2·(lane mod 4) and the next.

#define TILE_PADDING 8

__device__ __forceinline__ u32 shared_address(const void *at) { return u32(__cvta_generic_to_shared(at)); }

// Copies 16 bytes from global to shared memory, asynchronously; zeros if `real` is false.
__device__ __forceinline__ void copy_async(void *to, const void *from, bool real) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(real ? 16 : 0)
                 : "memory");
}
// Waits for this thread's copies; other threads still need a barrier.
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ __forceinline__ void load_matrices(u32 (&out)[4], const bf16 *at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(shared_address(at)) : "memory");
}
__device__ __forceinline__ void load_transposed(u32 (&out)[4], const bf16 *at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(shared_address(at)) : "memory");
}
__device__ __forceinline__ void multiply_add(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Address of this lane's row of four 8 × 8 matrices: the two upper ones first (`down`: the one below comes second), or
// the two left ones first (`across`).
template <int STRIDE> __device__ __forceinline__ const bf16 *down(const bf16 *tile) {
    const int lane = threadIdx.x % WARP;
    return tile + lane % 16 * STRIDE + lane / 16 * 8;
}
template <int STRIDE> __device__ __forceinline__ const bf16 *across(const bf16 *tile) {
    const int lane = threadIdx.x % WARP;
    return tile + (lane % 8 + lane / 16 * 8) * STRIDE + lane / 8 % 2 * 8;
}

template <int ROWS, int COLUMNS> __device__ __forceinline__ void clear(float (&sums)[ROWS][COLUMNS]) {
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; i++) sums[i / COLUMNS][i % COLUMNS] = 0.0f;
}

// sums = A·Bᵀ for 16 rows of A and the first 16·n rows of B, both tiles of D columns; the other sums are 0.
template <int D, int COLUMNS>
__device__ __forceinline__ void rows_by_rows(float (&sums)[COLUMNS / 8][4], const bf16 *a, const bf16 *b, int n) {
    constexpr int STRIDE = D + TILE_PADDING;
    clear(sums);
    a = down<STRIDE>(a);
    b = across<STRIDE>(b);
#pragma unroll
    for (int inner = 0; inner < D; inner += 16) {
        u32 left[4], right[4];
        load_matrices(left, a + inner);
#pragma unroll
        for (int tile = 0; tile < COLUMNS / 16; tile++) {
            if (tile >= n) break;
            load_matrices(right, b + tile * 16 * STRIDE + inner);
            multiply_add(sums[2 * tile], left, right[0], right[1]);
            multiply_add(sums[2 * tile + 1], left, right[2], right[3]);
        }
    }
}

// sums += A·B for 16 × INNER values of A in registers and the first COLUMNS columns of tile B, whose rows are STRIDE
// apart; only the first 16·n rows of B count.
template <int STRIDE, int INNER, int COLUMNS>
__device__ __forceinline__ void registers_by_tile(float (&sums)[COLUMNS / 8][4], const u32 (&a)[INNER / 16][4],
                                                  const bf16 *b, int n) {
    b = down<STRIDE>(b);
#pragma unroll
    for (int inner = 0; inner < INNER / 16; inner++) {
        if (inner >= n) break;
#pragma unroll
        for (int tile = 0; tile < COLUMNS / 16; tile++) {
            u32 right[4];
            load_transposed(right, b + inner * 16 * STRIDE + tile * 16);
            multiply_add(sums[2 * tile], a[inner], right[0], right[1]);
            multiply_add(sums[2 * tile + 1], a[inner], right[2], right[3]);
        }
    }
}

// sums += Aᵀ·B for 16 columns of tile A and COLUMNS columns of tile B, over 16·n rows.
template <int A_STRIDE, int B_STRIDE, int COLUMNS>
__device__ __forceinline__ void columns_by_tile(float (&sums)[COLUMNS / 8][4], const bf16 *a, const bf16 *b, int n) {
    a = across<A_STRIDE>(a);
    b = down<B_STRIDE>(b);
    for (int inner = 0; inner < n; inner++) {
        u32 left[4], right[4];
        load_transposed(left, a + inner * 16 * A_STRIDE);
#pragma unroll
        for (int tile = 0; tile < COLUMNS / 16; tile++) {
            load_transposed(right, b + inner * 16 * B_STRIDE + tile * 16);
            multiply_add(sums[2 * tile], left, right[0], right[1]);
            multiply_add(sums[2 * tile + 1], left, right[2], right[3]);
        }
    }
}

// Sums of 16 × COLUMNS as the left operand of the next product.
template <int COLUMNS>
__device__ __forceinline__ void as_left(u32 (&out)[COLUMNS / 16][4], const float (&sums)[COLUMNS / 8][4]) {
#pragma unroll
    for (int tile = 0; tile < COLUMNS / 16; tile++) {
        out[tile][0] = pack_bf16(sums[2 * tile][0], sums[2 * tile][1]);
        out[tile][1] = pack_bf16(sums[2 * tile][2], sums[2 * tile][3]);
        out[tile][2] = pack_bf16(sums[2 * tile + 1][0], sums[2 * tile + 1][1]);
        out[tile][3] = pack_bf16(sums[2 * tile + 1][2], sums[2 * tile + 1][3]);
    }
}

// A matrix in global memory: address of its first value, and stride between rows.
template <typename T> struct Rows {
    T *at;
    u64 stride;
};

// Copies the first `rows` rows of `from` to a tile, by the whole block. Rows from n_rows and columns from n_columns
// become 0. `wide`: rows begin at multiples of 16 bytes and n_columns is a multiple of 8.
template <int D>
__device__ __forceinline__ void load_tile(bf16 *tile, Rows<const bf16> from, int rows, int n_rows, int n_columns,
                                          bool wide) {
    for (int chunk = threadIdx.x; chunk < rows * (D / 8); chunk += blockDim.x) {
        const int row = chunk / (D / 8), column = chunk % (D / 8) * 8;
        bf16 *to = tile + row * (D + TILE_PADDING) + column;
        const bool real = row < n_rows && column < n_columns;
        const bf16 *source = real ? from.at + row * from.stride + column : from.at;
        if (wide) {
            copy_async(to, source, real);
            continue;
        }
        for (int i = 0; i < 8; i++) to[i] = real && column + i < n_columns ? source[i] : bf16{0};
    }
}

// Writes 16 × COLUMNS sums to the first n_rows rows and n_columns columns of `to`. With `wide` neighbours swap halves,
// so that four threads fill the 32 bytes of a memory transaction.
template <int COLUMNS>
__device__ __forceinline__ void store_sums(Rows<bf16> to, const float (&sums)[COLUMNS / 8][4], int n_rows, int n_columns,
                                           bool wide) {
    const int lane = threadIdx.x % WARP, odd = lane % 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = lane / 4 + 8 * half;
        bf16 *target = to.at + row * to.stride;
#pragma unroll
        for (int tile = 0; tile < COLUMNS / 8; tile += 2) {
            const u32 left = pack_bf16(sums[tile][2 * half], sums[tile][2 * half + 1]);
            const u32 right = pack_bf16(sums[tile + 1][2 * half], sums[tile + 1][2 * half + 1]);
            const u32 other = __shfl_xor_sync(ALL_LANES, odd ? left : right, 1);
            const uint2 both = odd ? make_uint2(other, right) : make_uint2(left, other);
            const int column = (tile + odd) * 8 + lane % 4 / 2 * 4;
            if (row >= n_rows || column >= n_columns) continue;
            if (wide) {
                *reinterpret_cast<uint2 *>(target + column) = both;
                continue;
            }
            const u32 words[2] = {both.x, both.y};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (column + i < n_columns) target[column + i].bits = u16(words[i / 2] >> (i % 2 * 16));
            }
        }
    }
}

// 2ˣ, accurate enough for bf16.
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ---- Shared by the attention kernels. ----

#define LOG2_E 1.44269504088896f

// Sizes and options of one attention, the same for every head; passed by the host.
struct Attention {
    int q_len, k_len, n_heads, n_key_heads, d_key, d_value;
    // The last query is at the last key; a query attends to no later key.
    bool causal;
    // All matrices may be read 16 bytes at a time.
    bool wide;
    float scale;
    // Number of keys in each row of the batch that are not padding; all if null.
    const u32 *key_lengths;
    Dropout dropout;

    __device__ __forceinline__ int exists(int row) const {
        return key_lengths ? min(int(key_lengths[row]), k_len) : k_len;
    }
    // Number of leading keys that a query attends to; 0 past the last query.
    __device__ __forceinline__ int visible(int exists, int query) const {
        if (query >= q_len) return 0;
        return causal ? max(min(exists, query + 1 + k_len - q_len), 0) : exists;
    }
    __device__ __forceinline__ float keep_scale() const { return dropout.threshold ? dropout.scale : 1.0f; }
    // Dropout index of a query's weight for key 0; `head` counts through rows of the batch and heads.
    __device__ __forceinline__ u64 weight(u64 head, int query) const { return (head * q_len + query) * k_len; }
    // Address of the first value of a head at a position of a row of the batch.
    template <typename T>
    __device__ __forceinline__ Rows<T> head(Rows<T> all, u64 position, int head, int d_head) const {
        return Rows<T>{all.at + position * all.stride + u64(head) * d_head, all.stride};
    }
};

#define ATTENTION_PARAMETERS                                                                                               \
    u32 q_len, u32 k_len, u32 n_heads, u32 n_key_heads, u32 key_size, u32 value_size, u32 causal, u32 wide, float scale,   \
        const u32 *key_lengths, Dropout dropout
#define ATTENTION                                                                                                          \
    Attention {                                                                                                            \
        int(q_len), int(k_len), int(n_heads), int(n_key_heads), int(key_size), int(value_size), causal != 0, wide != 0,    \
            scale, key_lengths, dropout                                                                                    \
    }

// Draws the 256 values from 128·block by one warp, a bit each in the order of their index: one Philox per lane.
__device__ __forceinline__ void draw_bits(u32 *bits, const Dropout &d, uint2 key, u64 block) {
    const u32 lane = threadIdx.x % WARP;
    const u32 own = keep_bits(d, key, block * 16 + lane);
    u32 chosen = 0;
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
        const u32 all = __ballot_sync(ALL_LANES, own >> j & 1);
        chosen = j == lane % 8 ? all : chosen;
    }
    // Lane 8·b + j has sixteen bits of block b.
    if (lane < 16) reinterpret_cast<u16 *>(bits)[lane] = u16(chosen >> (lane / 8 * 16));
}

// Words of 256 bits. A reader of 64 bits may access words past the last: the host allocates four more.
#define DRAWN_WORDS 8

// Draws `count` values from `first` by the whole block; the bit of `first` is number first mod 128.
__device__ __forceinline__ void draw_range(u32 *bits, const Dropout &d, u64 first, int count) {
    const uint2 key = dropout_key(d);
    const int drawn = (int(first % 128) + count + 255) / 256;
    for (int i = threadIdx.x / WARP; i < drawn; i += blockDim.x / WARP) {
        draw_bits(bits + i * DRAWN_WORDS, d, key, first / 128 + 2 * i);
    }
}

// Draws, for each of `rows` queries from first_query, the weights from key `from` by the whole block. If all keys are
// among the `keys` of the block, weights follow each other without gaps and are drawn as one range; otherwise each
// query has 256 bits of its own, enough for 128 keys.
__device__ __forceinline__ void draw_tile(u32 *bits, const Attention &a, u64 head, int first_query, int rows, int from,
                                          int keys) {
    if (a.k_len <= keys) {
        draw_range(bits, a.dropout, a.weight(head, first_query), min(rows, a.q_len - first_query) * a.k_len);
        return;
    }
    const uint2 key = dropout_key(a.dropout);
    for (int i = threadIdx.x / WARP; i < rows; i += blockDim.x / WARP) {
        draw_bits(bits + i * DRAWN_WORDS, a.dropout, key, (a.weight(head, first_query + i) + from) / 128);
    }
}

// Index of the bit of key `from` and query first_query + row. A query past the last has that of another.
__device__ __forceinline__ u32 first_bit(const Attention &a, u64 head, int first_query, int row, int from, int keys) {
    if (a.k_len <= keys) {
        return u32(a.weight(head, first_query) % 128) + min(row, a.q_len - first_query - 1) * a.k_len;
    }
    return row * 32 * DRAWN_WORDS + u32((a.weight(head, first_query + row) + from) % 128);
}

// 64 bits from bit `offset`.
__device__ __forceinline__ u64 window(const u32 *bits, u32 offset) {
    const u32 *at = bits + offset / 32;
    const u32 low = __funnelshift_r(at[0], at[1], offset), high = __funnelshift_r(at[1], at[2], offset);
    return u64(high) << 32 | low;
}
