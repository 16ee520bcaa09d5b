// What every kernel file begins with: types, conversions, loads of eight numbers, sums over a warp or a block, Philox.
//
// No header of the toolkit is used, so a machine with a driver and NVRTC alone compiles it. Sums are taken in a fixed
// order, never by atomics: the same input gives the same bits.

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

// Two numbers to a word, the first in the low half.
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
__device__ __forceinline__ float low_bf16(u32 word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_bf16(u32 word) { return __uint_as_float(word & 0xffff0000u); }

// Eight numbers in a row, aligned to their size (16 bytes of bf16, 32 bytes of f32).
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

// Sum and maximum over a warp, for every lane; the tree is always the same.
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

// The same over a block of at most 1024 threads, a multiple of 32; `scratch` has 32 floats that nobody else uses.
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

// A drawn dropout. The key of a step stands in memory, so that a recorded graph can be replayed for another step; or it is
// in `key` where `key_at` is null. A number goes if its sixteen bits are below `threshold`; 0 drops nothing.
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

// Which of eight numbers stay, one bit each: those with indices 128·block + lane + 16·j, j = 0 … 7, for counter
// 16·block + lane. Number i of a block of 128 takes half a word of counter i mod 16, as on the CPU.
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

// Whether the number at `index` stays: the slow way, one Philox for one number.
__device__ __forceinline__ bool keeps(const Dropout &d, uint2 key, u64 index) {
    const u32 within = u32(index % 128);
    return keep_bits(d, key, index / 128 * 16 + within % 16) >> (within / 16) & 1;
}

// The fast way for a whole warp whose thread t holds the numbers first + 8t … first + 8t + 7, `first` a multiple of 256:
// one Philox a thread, exchanged by ballots. Bit i of the result: number first + 8t + i stays. All lanes take part.
__device__ __forceinline__ u32 warp_keep_bits(const Dropout &d, uint2 key, u64 first) {
    const u32 lane = threadIdx.x % WARP;
    const u32 own = keep_bits(d, key, first / 128 * 16 + lane);
    // Thread t of a half-warp wants j = t / 2, lanes 8·(t mod 2) … + 7 of its own half.
    const u32 wanted = lane % 16 / 2;
    u32 chosen = 0;
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
        const u32 all = __ballot_sync(ALL_LANES, own >> j & 1);
        chosen = j == wanted ? all : chosen;
    }
    return chosen >> (lane / 16 * 16 + lane % 2 * 8) & 0xffu;
}
