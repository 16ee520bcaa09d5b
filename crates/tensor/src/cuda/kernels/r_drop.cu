// R-Drop: cross-entropy of two passes over the same positions and the divergence between them, with the gradients of
// both.
//
// With p and q the softmax of a position's logits y and z, and d = ln p − ln q: loss = mean cross-entropy of both passes +
// α · mean ½ (KL(p‖q) + KL(q‖p)), KL(p‖q) = Σ p d. dy = (p − target)/2n + α/2n (p (d − KL(p‖q)) + p − q), dz likewise.
// A block has a position, whose second row is `positions` rows below; both are held in shared memory if they fit.

struct Online {
    float m, s, total;
    __device__ __forceinline__ void take(const Eight &v, u32 count) {
        float largest = m;
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (i < count) largest = fmaxf(largest, v.x[i]);
        if (largest > m) {
            s *= power_of_two((m - largest) * LOG2_E);
            m = largest;
        }
        const float shift = m == -INFINITY_F ? 0.0f : m * LOG2_E;
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (i < count) {
                s += power_of_two(fmaf(v.x[i], LOG2_E, -shift));
                total += v.x[i];
            }
    }
    __device__ __forceinline__ float finish(float *scratch) {
        const float largest = block_max(m, scratch);
        const float shift = largest == -INFINITY_F ? 0.0f : largest;
        const float sum = block_sum(s * power_of_two((m - shift) * LOG2_E), scratch);
        total = block_sum(total, scratch);
        return largest + logf(sum);
    }
};

// p · d, which is 0 where p = 0.
__device__ __forceinline__ float weighed(float p, float d) { return p == 0.0f ? 0.0f : p * d; }

extern __shared__ uint4 kept_memory[];

struct RDrop {
    const u32 *targets, *count;
    float *losses, *halves;
    u32 width, has_ignored, ignored;
    float smoothing, alpha;
    u32 keep;
};

// FAST: rows are multiples of eight values, so that every group of eight is complete and aligned.
template <typename T, bool FAST> __device__ __forceinline__ void visit(const T *logits, T *gradient, const RDrop &p) {
    auto counted = [&](u32 at) { return FAST ? 8u : some(at, p.width); };
    auto load = [](const T *from, u32 count) { return FAST ? load8(from) : load_some(from, count); };
    auto store = [](T *to, const Eight &v, u32 count) { FAST ? store8(to, v) : store_some(to, v, count); };
    __shared__ float scratch[WARP];
    const u32 width = p.width, position = blockIdx.x, positions = gridDim.x, target = p.targets[position];
    const u32 padded = (width + 7) / 8 * 8, stride = blockDim.x * 8, own = threadIdx.x * 8;
    const u64 starts[2] = {u64(position) * width, u64(position + positions) * width};
    if (p.has_ignored && target == p.ignored) {
        for (int pass = 0; pass < 2; pass++) {
            if (gradient)
                for (u32 at = own; at < width; at += stride)
                    store(gradient + starts[pass] + at, Eight{{0}}, counted(at));
            if (threadIdx.x == 0) p.losses[position + pass * positions] = 0.0f;
        }
        if (threadIdx.x == 0) p.halves[position] = 0.0f;
        return;
    }
    const T *rows[2];
    float logsumexp[2], loss[2];
    for (int pass = 0; pass < 2; pass++) {
        const T *row = logits + starts[pass];
        T *kept = reinterpret_cast<T *>(kept_memory) + pass * padded;
        const float right = target < width ? to_float(row[target]) : __int_as_float(0x7fc00000);
        Online online = {-INFINITY_F, 0.0f, 0.0f};
#pragma unroll 4
        for (u32 at = own; at < width; at += stride) {
            const u32 count = counted(at);
            const Eight v = load(row + at, count);
            if (p.keep) store8(kept + at, v);
            online.take(v, count);
        }
        rows[pass] = p.keep ? kept : row;
        logsumexp[pass] = online.finish(scratch);
        const float mean = p.smoothing == 0.0f ? 0.0f : online.total / width;
        loss[pass] = logsumexp[pass] - (1.0f - p.smoothing) * right - p.smoothing * mean;
    }
    const float a = logsumexp[0], b = logsumexp[1], shift = a - b;
    float forth = 0, back = 0;
    for (u32 at = own; at < width; at += stride) {
        const u32 count = counted(at);
        const Eight y = load(rows[0] + at, count), z = load(rows[1] + at, count);
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (i < count) {
                const float d = (y.x[i] - z.x[i]) - shift;
                forth += weighed(power_of_two((y.x[i] - a) * LOG2_E), d);
                back += weighed(power_of_two((z.x[i] - b) * LOG2_E), -d);
            }
    }
    forth = block_sum(forth, scratch);
    back = block_sum(back, scratch);
    if (threadIdx.x == 0) {
        p.losses[position] = loss[0];
        p.losses[position + positions] = loss[1];
        p.halves[position] = 0.5f * (forth + back);
    }
    if (!gradient) return;
    const float share = 1.0f / (2.0f * (*p.count ? *p.count : 1)), kl = p.alpha * share;
    const float floor = share * p.smoothing / width, whole = share * (1.0f - p.smoothing);
    const bool infinite = a == INFINITY_F && b == INFINITY_F;
    for (u32 at = own; at < width; at += stride) {
        const u32 count = counted(at);
        Eight y = load(rows[0] + at, count), z = load(rows[1] + at, count);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const float p_ = power_of_two((y.x[i] - a) * LOG2_E), q = power_of_two((z.x[i] - b) * LOG2_E);
            const float d = (y.x[i] - z.x[i]) - shift;
            const float take = at + i == target ? whole : 0.0f;
            y.x[i] = infinite ? 0.0f : (share * p_ - floor) + kl * (weighed(p_, d - forth) + (p_ - q)) - take;
            z.x[i] = infinite ? 0.0f : (share * q - floor) + kl * (weighed(q, -d - back) + (q - p_)) - take;
        }
        store(gradient + starts[0] + at, y, count);
        store(gradient + starts[1] + at, z, count);
    }
}

#define KERNEL(NAME, T, FAST)                                                                                          \
    extern "C" __global__ void __launch_bounds__(512, 3)                                                               \
        NAME(const T *logits, T *gradient, const u32 *targets, const u32 *count, float *losses, float *halves,         \
             u32 width, u32 has_ignored, u32 ignored, float smoothing, float alpha, u32 keep) {                        \
        visit<T, FAST>(logits, gradient,                                                                               \
                       RDrop{targets, count, losses, halves, width, has_ignored, ignored, smoothing, alpha, keep});    \
    }
KERNEL(r_drop_f32, float, true)
KERNEL(r_drop_bf16, bf16, true)
KERNEL(r_drop_any_f32, float, false)
KERNEL(r_drop_any_bf16, bf16, false)

// The loss, its cross-entropy and its divergence: means[0 … 2]; one block, in f64.
extern "C" __global__ void __launch_bounds__(512)
    r_drop_means(const float *losses, const float *halves, u32 positions, const u32 *count, float alpha, float *means) {
    __shared__ double sums[2][512];
    double loss = 0, half = 0;
    for (u32 i = threadIdx.x; i < 2 * positions; i += blockDim.x) loss += losses[i];
    for (u32 i = threadIdx.x; i < positions; i += blockDim.x) half += halves[i];
    sums[0][threadIdx.x] = loss;
    sums[1][threadIdx.x] = half;
    for (u32 step = blockDim.x / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            for (int k = 0; k < 2; k++) sums[k][threadIdx.x] += sums[k][threadIdx.x + step];
    }
    if (threadIdx.x != 0) return;
    const double counted = *count ? *count : 1, cross_entropy = sums[0][0] / (2 * counted);
    const double divergence = sums[1][0] / counted;
    // An infinite divergence of weight 0 adds nothing.
    means[0] = float(cross_entropy + (alpha == 0.0f ? 0.0 : alpha * divergence));
    means[1] = float(cross_entropy);
    means[2] = float(divergence);
}
