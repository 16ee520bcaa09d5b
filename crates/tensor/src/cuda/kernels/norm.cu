// Layer and root-mean-square normalisation of h = residual + dropout(x) over rows, and their backward passes.
//
// layer: y = γ (h − μ)/√(σ² + ε) + β; rms: y = γ h/√(mean(h²) + ε). With n the normalised row and g = γ·dy:
// dh = (g − mean(g) − n·mean(g·n))·inverse (rms: without mean(g)), dγ = Σ dy·n, dβ = Σ dy.
// Rows of up to 1024 values in multiples of 8 are held in the registers of one warp; all others are processed by a
// block. Each block of the backward pass has its own sums of dγ and dβ, which `column_sum_finish` adds in order.

#define CHUNK 256

// Eight values as stored in memory, which takes few registers while loads are in flight.
template <typename T> struct Raw;
template <> struct Raw<bf16> { uint4 words; };
template <> struct Raw<float> { Eight numbers; };
__device__ __forceinline__ Raw<bf16> load_raw(const bf16 *from) {
    return Raw<bf16>{*reinterpret_cast<const uint4 *>(from)};
}
__device__ __forceinline__ Raw<float> load_raw(const float *from) { return Raw<float>{load8(from)}; }
__device__ __forceinline__ Eight open(const Raw<bf16> &raw) { return load8(reinterpret_cast<const bf16 *>(&raw.words)); }
__device__ __forceinline__ Eight open(const Raw<float> &raw) { return raw.numbers; }

struct NormForward {
    const void *x, *residual;
    const float *gamma, *beta;
    void *h, *y;
    float *mean, *inverse;
    u32 rows, width;
    float epsilon;
    Dropout dropout;
};

template <typename T, int CHUNKS, bool RMS> __device__ __forceinline__ void forward_by_warps(const NormForward &p) {
    const u32 lane = threadIdx.x % WARP, row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (row >= p.rows) return;
    const u64 start = u64(row) * p.width;
    const T *x = static_cast<const T *>(p.x) + start, *residual = static_cast<const T *>(p.residual) + start;
    Raw<T> raw[CHUNKS] = {}, other[CHUNKS] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const u32 column = c * CHUNK + lane * 8;
        if (column < p.width) {
            raw[c] = load_raw(x + column);
            if (p.residual) other[c] = load_raw(residual + column);
        }
    }
    // Drawn while the loads are in flight.
    u32 bits[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) bits[c] = 0xffu;
    if (p.dropout.threshold) {
        const uint2 key = dropout_key(p.dropout);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            if (c * CHUNK < p.width) bits[c] = warp_keep_bits_from(p.dropout, key, start + c * CHUNK);
    }
    const float scale = p.dropout.threshold ? p.dropout.scale : 1.0f;
    Eight v[CHUNKS];
    float sum = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const u32 column = c * CHUNK + lane * 8;
        const Eight r = open(other[c]);
        v[c] = open(raw[c]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float kept = bits[c] >> i & 1 ? v[c].x[i] * scale : 0.0f;
            // Rounded as stored, so that the backward pass sees the same values.
            v[c].x[i] = to_float(from_float<T>(kept + r.x[i]));
            sum += RMS ? v[c].x[i] * v[c].x[i] : v[c].x[i];
        }
        if (p.h && column < p.width) store8(static_cast<T *>(p.h) + start + column, v[c]);
    }
    const float n = p.width;
    sum = warp_sum(sum);
    float mean = 0, squares = sum;
    if (!RMS) {
        mean = sum / n;
        squares = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            if (c * CHUNK + lane * 8 < p.width) {
#pragma unroll
                for (int i = 0; i < 8; i++) squares += (v[c].x[i] - mean) * (v[c].x[i] - mean);
            }
        squares = warp_sum(squares);
    }
    const float inverse = 1.0f / sqrtf(squares / n + p.epsilon);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const u32 column = c * CHUNK + lane * 8;
        if (column < p.width) {
            const Eight gamma = load8(p.gamma + column);
            Eight beta = Eight{{0}};
            if (!RMS) beta = load8(p.beta + column);
#pragma unroll
            for (int i = 0; i < 8; i++) v[c].x[i] = (v[c].x[i] - mean) * inverse * gamma.x[i] + beta.x[i];
            store8(static_cast<T *>(p.y) + start + column, v[c]);
        }
    }
    if (lane == 0) {
        if (!RMS) p.mean[row] = mean;
        p.inverse[row] = inverse;
    }
}

template <typename T, bool RMS> __device__ __forceinline__ void forward_by_blocks(const NormForward &p) {
    __shared__ float scratch[WARP];
    const u32 row = blockIdx.x;
    const u64 start = u64(row) * p.width;
    const T *x = static_cast<const T *>(p.x) + start, *residual = static_cast<const T *>(p.residual) + start;
    const T *h = x;
    const uint2 key = dropout_key(p.dropout);
    float sum = 0;
    for (u32 i = threadIdx.x; i < p.width; i += blockDim.x) {
        float v = to_float(x[i]);
        if (p.dropout.threshold) v = keeps(p.dropout, key, start + i) ? v * p.dropout.scale : 0.0f;
        if (p.residual) v += to_float(residual[i]);
        const T kept = from_float<T>(v);
        if (p.h) static_cast<T *>(p.h)[start + i] = kept;
        v = to_float(kept);
        sum += RMS ? v * v : v;
    }
    if (p.h) h = static_cast<const T *>(p.h) + start;
    const float n = p.width;
    sum = block_sum(sum, scratch);
    float mean = 0, squares = sum;
    if (!RMS) {
        mean = sum / n;
        squares = 0;
        for (u32 i = threadIdx.x; i < p.width; i += blockDim.x) {
            const float v = to_float(h[i]) - mean;
            squares += v * v;
        }
        squares = block_sum(squares, scratch);
    }
    const float inverse = 1.0f / sqrtf(squares / n + p.epsilon);
    for (u32 i = threadIdx.x; i < p.width; i += blockDim.x) {
        const float y = (to_float(h[i]) - mean) * inverse * p.gamma[i] + (RMS ? 0.0f : p.beta[i]);
        static_cast<T *>(p.y)[start + i] = from_float<T>(y);
    }
    if (threadIdx.x == 0) {
        if (!RMS) p.mean[row] = mean;
        p.inverse[row] = inverse;
    }
}

// `to_residual` gets dh, `to_x` gets mask∘dh; either may be null. `before_…` (null, the array that is written, or
// another) is added.
// `partials` (null if not needed): for each block dγ, followed by dβ for layer norms.
struct NormBackward {
    const void *dy, *h;
    const float *gamma, *mean, *inverse;
    void *to_residual, *to_x;
    const void *before_residual, *before_x;
    float *partials;
    u32 rows, width;
    Dropout dropout;
};

// At `at`: to = v + before.
template <typename T> __device__ __forceinline__ void put(void *to, const void *before, u64 at, Eight v) {
    if (before) {
        const Eight more = load8(static_cast<const T *>(before) + at);
#pragma unroll
        for (int i = 0; i < 8; i++) v.x[i] += more.x[i];
    }
    store8(static_cast<T *>(to) + at, v);
}

template <typename T, int CHUNKS, bool RMS> __device__ __forceinline__ void backward_by_warps(const NormBackward &p) {
    __shared__ float4 sums[(RMS ? 1 : 2) * CHUNKS * CHUNK / 4];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    Eight to_gamma[CHUNKS], to_beta[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) to_gamma[c] = to_beta[c] = Eight{{0}};
    const uint2 key = dropout_key(p.dropout);
    // The next row is loaded before the current one is processed.
    Raw<T> next_dy[CHUNKS] = {}, next_h[CHUNKS] = {};
    float next_mean = 0, next_inverse = 0;
    auto fetch = [&](u32 row) {
        if (row >= p.rows) return;
        if (!RMS) next_mean = p.mean[row];
        next_inverse = p.inverse[row];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const u32 column = c * CHUNK + lane * 8;
            if (column < p.width) {
                next_dy[c] = load_raw(static_cast<const T *>(p.dy) + u64(row) * p.width + column);
                next_h[c] = load_raw(static_cast<const T *>(p.h) + u64(row) * p.width + column);
            }
        }
    };
    const u32 step = gridDim.x * warps;
    u32 row = blockIdx.x * warps + warp;
    fetch(row);
    for (; row < p.rows; row += step) {
        const u64 start = u64(row) * p.width;
        Eight dy[CHUNKS], n[CHUNKS];
        const float mean = next_mean, inverse = next_inverse;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            dy[c] = open(next_dy[c]);
            n[c] = open(next_h[c]);
        }
        fetch(row + step);
        float sum_g = 0, sum_gn = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const u32 column = c * CHUNK + lane * 8;
            if (column < p.width) {
                const Eight gamma = load8(p.gamma + column);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    n[c].x[i] = (n[c].x[i] - mean) * inverse;
                    to_gamma[c].x[i] += dy[c].x[i] * n[c].x[i];
                    if (!RMS) to_beta[c].x[i] += dy[c].x[i];
                    dy[c].x[i] *= gamma.x[i];
                    sum_g += dy[c].x[i];
                    sum_gn += dy[c].x[i] * n[c].x[i];
                }
            }
        }
        const float mean_g = RMS ? 0.0f : warp_sum(sum_g) / p.width, mean_gn = warp_sum(sum_gn) / p.width;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const u32 column = c * CHUNK + lane * 8;
            if (c * CHUNK >= p.width) break;
#pragma unroll
            for (int i = 0; i < 8; i++) dy[c].x[i] = (dy[c].x[i] - mean_g - n[c].x[i] * mean_gn) * inverse;
            if (p.to_residual && column < p.width)
                put<T>(p.to_residual, p.before_residual, start + column, dy[c]);
            if (!p.to_x) continue;
            if (p.dropout.threshold) {
                const u32 bits = warp_keep_bits_from(p.dropout, key, start + c * CHUNK);
#pragma unroll
                for (int i = 0; i < 8; i++) dy[c].x[i] = bits >> i & 1 ? dy[c].x[i] * p.dropout.scale : 0.0f;
            }
            if (column < p.width) put<T>(p.to_x, p.before_x, start + column, dy[c]);
        }
    }
    if (!p.partials) return;
    // One warp after the other, so that the order is fixed.
    float *all = reinterpret_cast<float *>(sums);
    for (u32 turn = 0; turn < warps; turn++) {
        if (warp == turn) {
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const u32 column = c * CHUNK + lane * 8;
                put<float>(all, turn ? all : nullptr, column, to_gamma[c]);
                if (!RMS) put<float>(all, turn ? all : nullptr, CHUNKS * CHUNK + column, to_beta[c]);
            }
        }
        __syncthreads();
    }
    const u32 columns = RMS ? p.width : 2 * p.width;
    for (u32 i = threadIdx.x; i < columns; i += blockDim.x)
        p.partials[u64(blockIdx.x) * columns + i] = all[i < p.width ? i : CHUNKS * CHUNK + i - p.width];
}

template <typename T, bool RMS> __device__ __forceinline__ void backward_by_blocks(const NormBackward &p) {
    __shared__ float scratch[WARP];
    const uint2 key = dropout_key(p.dropout);
    float *partials = p.partials + u64(blockIdx.x) * p.width * (RMS ? 1 : 2);
    for (u32 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const u64 start = u64(row) * p.width;
        const T *dy = static_cast<const T *>(p.dy) + start, *h = static_cast<const T *>(p.h) + start;
        const float mean = RMS ? 0.0f : p.mean[row], inverse = p.inverse[row];
        float sum_g = 0, sum_gn = 0;
        for (u32 i = threadIdx.x; i < p.width; i += blockDim.x) {
            const float d = to_float(dy[i]), n = (to_float(h[i]) - mean) * inverse, g = d * p.gamma[i];
            sum_g += g;
            sum_gn += g * n;
            if (p.partials) {
                const bool first = row == blockIdx.x;
                partials[i] = (first ? 0.0f : partials[i]) + d * n;
                if (!RMS) partials[p.width + i] = (first ? 0.0f : partials[p.width + i]) + d;
            }
        }
        const float mean_g = RMS ? 0.0f : block_sum(sum_g, scratch) / p.width;
        const float mean_gn = block_sum(sum_gn, scratch) / p.width;
        for (u32 i = threadIdx.x; i < p.width; i += blockDim.x) {
            const float n = (to_float(h[i]) - mean) * inverse;
            float dh = (to_float(dy[i]) * p.gamma[i] - mean_g - n * mean_gn) * inverse;
            if (p.to_residual) {
                const float more = p.before_residual ? to_float(static_cast<const T *>(p.before_residual)[start + i]) : 0.0f;
                static_cast<T *>(p.to_residual)[start + i] = from_float<T>(dh + more);
            }
            if (p.to_x) {
                if (p.dropout.threshold) dh = keeps(p.dropout, key, start + i) ? dh * p.dropout.scale : 0.0f;
                const float more = p.before_x ? to_float(static_cast<const T *>(p.before_x)[start + i]) : 0.0f;
                static_cast<T *>(p.to_x)[start + i] = from_float<T>(dh + more);
            }
        }
    }
}

// `BLOCKS`: blocks that must fit on a multiprocessor, so that enough rows are in flight.
#define FORWARD(NAME, BLOCKS, BODY)                                                                                    \
    extern "C" __global__ void __launch_bounds__(128, BLOCKS)                                                          \
        NAME(const void *x, const void *residual, const float *gamma, const float *beta, void *h, void *y,             \
             float *mean, float *inverse, u32 rows, u32 width, float epsilon, Dropout dropout) {                       \
        BODY(NormForward{x, residual, gamma, beta, h, y, mean, inverse, rows, width, epsilon, dropout});               \
    }
#define BACKWARD(NAME, BLOCKS, BODY)                                                                                   \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                                          \
        NAME(const void *dy, const void *h, const float *gamma, const float *mean, const float *inverse,               \
             void *to_residual, const void *before_residual, void *to_x, const void *before_x, float *partials,        \
             u32 rows, u32 width, Dropout dropout) {                                                                   \
        BODY(NormBackward{dy, h, gamma, mean, inverse, to_residual, to_x, before_residual, before_x, partials, rows,   \
                          width, dropout});                                                                            \
    }
#define BOTH(KIND, RMS, DTYPE, T)                                                                                      \
    FORWARD(KIND##_forward_512_##DTYPE, 8, (forward_by_warps<T, 2, RMS>))                                              \
    FORWARD(KIND##_forward_1024_##DTYPE, 5, (forward_by_warps<T, 4, RMS>))                                             \
    FORWARD(KIND##_forward_any_##DTYPE, 1, (forward_by_blocks<T, RMS>))                                                \
    BACKWARD(KIND##_backward_512_##DTYPE, 2, (backward_by_warps<T, 2, RMS>))                                           \
    BACKWARD(KIND##_backward_1024_##DTYPE, 1, (backward_by_warps<T, 4, RMS>))                                          \
    BACKWARD(KIND##_backward_any_##DTYPE, 2, (backward_by_blocks<T, RMS>))

BOTH(layer_norm, false, f32, float)
BOTH(layer_norm, false, bf16, bf16)
BOTH(rms_norm, true, f32, float)
BOTH(rms_norm, true, bf16, bf16)
