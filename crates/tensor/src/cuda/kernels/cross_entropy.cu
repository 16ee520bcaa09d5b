// Cross-entropy of softmax(logits) with label smoothing, and its gradient in the same pass over a row.
//
// For a row with logits z and target id t: loss = logsumexp(z) − (1 − ε) z_t − ε·mean(z), dz = (softmax(z) −
// target)/count. A block has a row: it is read once into shared memory if it fits (otherwise again from the cache), its
// maximum and Σ eᶻ are computed together (Milakov & Gimelshein 2018), and the gradient is written, over the logits if
// requested.

// Number of targets that are not ignored, for the weights below; one block.
extern "C" __global__ void __launch_bounds__(1024)
    cross_entropy_count(const u32 *targets, u32 len, u32 has_ignored, u32 ignored, u32 *count) {
    __shared__ u32 sums[WARP];
    u32 sum = 0;
    for (u32 i = threadIdx.x; i < len; i += blockDim.x) sum += !(has_ignored && targets[i] == ignored);
    sum = __reduce_add_sync(ALL_LANES, sum);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x < WARP) {
        sum = __reduce_add_sync(ALL_LANES, threadIdx.x < blockDim.x / WARP ? sums[threadIdx.x] : 0);
        if (threadIdx.x == 0) *count = sum;
    }
}

// Mean of the losses, 0 if there are none; one block, in f64.
extern "C" __global__ void __launch_bounds__(1024)
    cross_entropy_mean(const float *losses, u32 len, const u32 *count, float *mean) {
    __shared__ double sums[1024];
    double sum = 0;
    for (u32 i = threadIdx.x; i < len; i += blockDim.x) sum += losses[i];
    sums[threadIdx.x] = sum;
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *mean = float(sums[0] / (*count ? *count : 1));
}

// Sixteen bytes of values, or a single one if rows are not aligned.
template <typename T, bool FAST> struct Pack;
template <> struct Pack<float, true> {
    typedef float4 Raw;
    enum { N = 4 };
    static __device__ __forceinline__ void open(Raw r, float *v) { v[0] = r.x, v[1] = r.y, v[2] = r.z, v[3] = r.w; }
    static __device__ __forceinline__ Raw close(const float *v) { return make_float4(v[0], v[1], v[2], v[3]); }
};
template <> struct Pack<bf16, true> {
    typedef uint4 Raw;
    enum { N = 8 };
    static __device__ __forceinline__ void open(Raw r, float *v) {
        v[0] = low_bf16(r.x), v[1] = high_bf16(r.x), v[2] = low_bf16(r.y), v[3] = high_bf16(r.y);
        v[4] = low_bf16(r.z), v[5] = high_bf16(r.z), v[6] = low_bf16(r.w), v[7] = high_bf16(r.w);
    }
    static __device__ __forceinline__ Raw close(const float *v) {
        return make_uint4(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
    }
};
template <typename T> struct Pack<T, false> {
    typedef T Raw;
    enum { N = 1 };
    static __device__ __forceinline__ void open(Raw r, float *v) { v[0] = to_float(r); }
    static __device__ __forceinline__ Raw close(const float *v) { return from_float<T>(v[0]); }
};

// m = largest value so far, s = Σ 2^((z − m) log₂ e), total = Σ z.
struct Online {
    float m, s, total;
    template <int N> __device__ __forceinline__ void take(const float *v) {
        float largest = v[0];
#pragma unroll
        for (int i = 1; i < N; i++) largest = fmaxf(largest, v[i]);
        if (largest > m) {
            s *= power_of_two((m - largest) * LOG2_E);
            m = largest;
        }
        const float shift = m == -INFINITY_F ? 0.0f : m * LOG2_E;
#pragma unroll
        for (int i = 0; i < N; i++) {
            s += power_of_two(fmaf(v[i], LOG2_E, -shift));
            total += v[i];
        }
    }
    // logsumexp over the block, in every thread; `total` becomes the block's too.
    __device__ __forceinline__ float finish(float *scratch) {
        const float largest = block_max(m, scratch);
        const float shift = largest == -INFINITY_F ? 0.0f : largest;
        const float sum = block_sum(s * power_of_two((m - shift) * LOG2_E), scratch);
        total = block_sum(total, scratch);
        return largest + logf(sum);
    }
};

extern __shared__ uint4 kept_memory[];

// gradient: null if not needed; may be `logits`. keep: the row fits into dynamic shared memory.
template <typename T, bool FAST>
__device__ __forceinline__ void visit(const T *logits, T *gradient, const u32 *targets, const u32 *count, float *losses,
                                      u32 width, u32 has_ignored, u32 ignored, float smoothing, u32 keep) {
    typedef Pack<T, FAST> P;
    typedef typename P::Raw Raw;
    enum { BATCH = FAST ? 4 : 8 };
    __shared__ float scratch[WARP];
    const u64 start = u64(blockIdx.x) * width;
    const u32 packs = width / P::N, target = targets[blockIdx.x], stride = blockDim.x;
    const Raw *from = reinterpret_cast<const Raw *>(logits + start);
    Raw *to = reinterpret_cast<Raw *>(gradient + start), *kept = reinterpret_cast<Raw *>(kept_memory);
    // An id outside the vocabulary has no loss: NaN shows it.
    const bool inside = target < width;
    if (has_ignored && target == ignored) {
        const float zeros[8] = {0};
        if (gradient)
            for (u32 at = threadIdx.x; at < packs; at += stride) to[at] = P::close(zeros);
        if (threadIdx.x == 0) losses[blockIdx.x] = 0.0f;
        return;
    }
    const float right = inside ? to_float(logits[start + target]) : __int_as_float(0x7fc00000);
    Online online = {-INFINITY_F, 0.0f, 0.0f};
    for (u32 at = threadIdx.x; at < packs; at += BATCH * stride) {
        Raw raw[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            if (at + j * stride < packs) raw[j] = from[at + j * stride];
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            if (at + j * stride < packs) {
                float v[P::N];
                if (keep) kept[at + j * stride] = raw[j];
                P::open(raw[j], v);
                online.take<P::N>(v);
            }
    }
    const float logsumexp = online.finish(scratch);
    if (threadIdx.x == 0) {
        const float mean = smoothing == 0.0f ? 0.0f : online.total / width;
        losses[blockIdx.x] = logsumexp - (1.0f - smoothing) * right - smoothing * mean;
    }
    if (!gradient) return;
    const u32 counted = *count;
    const float weight = 1.0f / float(counted ? counted : 1), floor = weight * smoothing / width;
    // weight · e^(z − logsumexp) = 2^(z log₂ e − shift).
    const float shift = fmaf(logsumexp, LOG2_E, log2f(float(counted ? counted : 1)));
    const bool infinite = logsumexp == INFINITY_F;
#pragma unroll 4
    for (u32 at = threadIdx.x; at < packs; at += stride) {
        float v[P::N];
        P::open(keep ? kept[at] : from[at], v);
#pragma unroll
        for (int i = 0; i < P::N; i++)
            v[i] = infinite ? 0.0f : power_of_two(fmaf(v[i], LOG2_E, -shift)) - floor;
        if (at == target / P::N && !infinite) {
#pragma unroll
            for (int i = 0; i < P::N; i++)
                if (i == target % P::N) v[i] -= weight * (1.0f - smoothing);
        }
        to[at] = P::close(v);
    }
}

#define KERNEL(NAME, T, FAST)                                                                                          \
    extern "C" __global__ void __launch_bounds__(512, 3)                                                               \
        NAME(const T *logits, T *gradient, const u32 *targets, const u32 *count, float *losses, u32 width,             \
             u32 has_ignored, u32 ignored, float smoothing, u32 keep) {                                                \
        visit<T, FAST>(logits, gradient, targets, count, losses, width, has_ignored, ignored, smoothing, keep);        \
    }
KERNEL(cross_entropy_f32, float, true)
KERNEL(cross_entropy_bf16, bf16, true)
KERNEL(cross_entropy_any_f32, float, false)
KERNEL(cross_entropy_any_bf16, bf16, false)
