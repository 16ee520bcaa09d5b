// Cross-entropy with a weight for each class, and its gradient in the same pass; see ops/weighted_cross_entropy.rs for the
// equation. Classes are few: a warp has a row.

// Σ of the weights of targets that are not ignored; one block, in f64.
extern "C" __global__ void __launch_bounds__(1024)
    weighted_cross_entropy_total(const u32 *targets, u32 len, const float *weights, u32 width, u32 has_ignored,
                                 u32 ignored, float *total) {
    __shared__ double sums[1024];
    double sum = 0;
    for (u32 i = threadIdx.x; i < len; i += blockDim.x) {
        const u32 target = targets[i];
        if (!(has_ignored && target == ignored) && target < width) sum += weights[target];
    }
    sums[threadIdx.x] = sum;
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *total = float(sums[0]);
}

// Σ losses / total, 0 if there are none; one block, in f64.
extern "C" __global__ void __launch_bounds__(1024)
    weighted_cross_entropy_mean(const float *losses, u32 len, const float *total, float *mean) {
    __shared__ double sums[1024];
    double sum = 0;
    for (u32 i = threadIdx.x; i < len; i += blockDim.x) sum += losses[i];
    sums[threadIdx.x] = sum;
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *mean = *total == 0.0f ? 0.0f : float(sums[0] / *total);
}

// gradient: null if not needed.
template <typename T>
__device__ __forceinline__ void visit(const T *logits, T *gradient, const u32 *targets, const float *weights,
                                      const float *total, float *losses, u32 rows, u32 width, u32 has_ignored,
                                      u32 ignored, float smoothing) {
    const u32 row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (row >= rows) return;
    const T *from = logits + u64(row) * width;
    T *to = gradient + u64(row) * width;
    const u32 target = targets[row];
    if (has_ignored && target == ignored) {
        if (gradient)
            for (u32 at = lane; at < width; at += WARP) to[at] = from_float<T>(0.0f);
        if (lane == 0) losses[row] = 0.0f;
        return;
    }
    float largest = -INFINITY_F;
    for (u32 at = lane; at < width; at += WARP) largest = fmaxf(largest, to_float(from[at]));
    largest = warp_max(largest);
    float sum = 0.0f;
    for (u32 at = lane; at < width; at += WARP) sum += expf(to_float(from[at]) - largest);
    const float logsumexp = largest + logf(warp_sum(sum));
    float all = 0.0f, weight_sum = 0.0f;
    for (u32 at = lane; at < width; at += WARP) {
        all += weights[at] * (logsumexp - to_float(from[at]));
        weight_sum += weights[at];
    }
    all = warp_sum(all);
    weight_sum = warp_sum(weight_sum);
    // An id that is no class has no loss: NaN shows it.
    const bool inside = target < width;
    const float own = inside ? weights[target] : __int_as_float(0x7fc00000);
    const float part = 1.0f - smoothing, share = smoothing / width;
    if (lane == 0) {
        const float right = inside ? to_float(from[target]) : 0.0f;
        losses[row] = part * own * (logsumexp - right) + (smoothing == 0.0f ? 0.0f : share * all);
    }
    if (!gradient) return;
    const float scale = *total == 0.0f ? 0.0f : 1.0f / *total;
    const float factor = scale * (part * own + share * weight_sum);
    for (u32 at = lane; at < width; at += WARP) {
        float v = factor * expf(to_float(from[at]) - logsumexp) - scale * share * weights[at];
        if (at == target) v -= scale * part * own;
        to[at] = from_float<T>(v);
    }
}

#define KERNEL(NAME, T)                                                                                                \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        NAME(const T *logits, T *gradient, const u32 *targets, const float *weights, const float *total,               \
             float *losses, u32 rows, u32 width, u32 has_ignored, u32 ignored, float smoothing) {                      \
        visit<T>(logits, gradient, targets, weights, total, losses, rows, width, has_ignored, ignored, smoothing);     \
    }
KERNEL(weighted_cross_entropy_f32, float)
KERNEL(weighted_cross_entropy_bf16, bf16)
