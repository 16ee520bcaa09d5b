// Elementwise operations: two tensors of one shape, functions of one and their backward passes.

enum { ADD, SUB, MUL, DIV };

// out = a ∘ b; b has `period` values, which are repeated.
template <typename T>
__device__ __forceinline__ void combine(const T *a, const T *b, T *out, u64 len, u64 period, u32 kind) {
    const u64 step = u64(gridDim.x) * blockDim.x * 8;
    for (u64 at = (u64(blockIdx.x) * blockDim.x + threadIdx.x) * 8; at < len; at += step) {
        const u32 count = some(at, len);
        Eight x = load_some(a + at, count);
        Eight y;
        if (period % 8 == 0 || period == len) y = load_some(b + at % period, count);
        else
            for (u32 i = 0; i < 8; i++) y.x[i] = i < count ? to_float(b[(at + i) % period]) : 1.0f;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            switch (kind) {
            case ADD: x.x[i] += y.x[i]; break;
            case SUB: x.x[i] -= y.x[i]; break;
            case MUL: x.x[i] *= y.x[i]; break;
            default: x.x[i] /= y.x[i];
            }
        }
        store_some(out + at, x, count);
    }
}

enum { SCALE, SQUARE, SQRT, EXP, LN, TANH, RELU, GELU, GELU_TANH, QUICK_GELU, SILU, SIGMOID };

__device__ __forceinline__ float logistic(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ __forceinline__ float value(u32 kind, float factor, float x) {
    switch (kind) {
    case SCALE: return factor * x;
    case SQUARE: return x * x;
    case SQRT: return sqrtf(x);
    case EXP: return expf(x);
    case LN: return logf(x);
    case TANH: return tanhf(x);
    case RELU: return x < 0.0f ? 0.0f : x;
    case GELU: return x * 0.5f * erfcf(-0.70710678f * x);
    case GELU_TANH: {
        const float u = 0.7978846f * (x + 0.044715f * x * x * x);
        return 0.5f * x * (1.0f + (2.0f * logistic(2.0f * u) - 1.0f));
    }
    case QUICK_GELU: return x * logistic(1.702f * x);
    case SILU: return x * logistic(x);
    default: return logistic(x);
    }
}

// f′ in terms of the saved tensor: y for sqrt, exp, tanh and ReLU, else x.
__device__ __forceinline__ float slope(u32 kind, float factor, float kept) {
    switch (kind) {
    case SCALE: return factor;
    case SQUARE: return 2.0f * kept;
    case SQRT: return 1.0f / (2.0f * kept);
    case EXP: return kept;
    case LN: return 1.0f / kept;
    case TANH: return (1.0f - kept) * (1.0f + kept);
    case RELU: return kept > 0.0f ? 1.0f : 0.0f;
    case GELU: return fmaf(kept, 0.3989423f * expf(-0.5f * kept * kept), 0.5f * erfcf(-0.70710678f * kept));
    case GELU_TANH: {
        const float root = 0.7978846f, cubic = 0.044715f;
        const float t = 2.0f * logistic(2.0f * root * (kept + cubic * kept * kept * kept)) - 1.0f;
        return 0.5f * (1.0f + t) + 0.5f * kept * (1.0f - t * t) * root * (1.0f + 3.0f * cubic * kept * kept);
    }
    case QUICK_GELU: {
        const float u = 1.702f * kept, s = logistic(u);
        return s * (1.0f + u * (1.0f - s));
    }
    case SILU: {
        const float s = logistic(kept);
        return s * (1.0f + kept * (1.0f - s));
    }
    default: return logistic(kept) * logistic(-kept);
    }
}

// y = f(x).
template <typename T> __device__ __forceinline__ void map(const T *x, T *y, u64 len, u32 kind, float factor) {
    const u64 step = u64(gridDim.x) * blockDim.x * 8;
    for (u64 at = (u64(blockIdx.x) * blockDim.x + threadIdx.x) * 8; at < len; at += step) {
        const u32 count = some(at, len);
        Eight v = load_some(x + at, count);
#pragma unroll
        for (int i = 0; i < 8; i++) v.x[i] = value(kind, factor, v.x[i]);
        store_some(y + at, v, count);
    }
}

// dx = dy·f′, accumulated if requested; `kept` is null if f′ is constant.
template <typename T>
__device__ __forceinline__ void map_back(const T *dy, const T *kept, T *dx, u64 len, u32 kind, float factor, u32 add) {
    const u64 step = u64(gridDim.x) * blockDim.x * 8;
    for (u64 at = (u64(blockIdx.x) * blockDim.x + threadIdx.x) * 8; at < len; at += step) {
        const u32 count = some(at, len);
        Eight v = load_some(dy + at, count), k = Eight{{0}}, before = Eight{{0}};
        if (kept) k = load_some(kept + at, count);
        if (add) before = load_some(static_cast<const T *>(dx) + at, count);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            // Avoids 0·∞ where the gradient is 0.
            const float s = slope(kind, factor, k.x[i]);
            v.x[i] = (kind == RELU && s == 0.0f ? 0.0f : v.x[i] * s) + before.x[i];
        }
        store_some(dx + at, v, count);
    }
}

// to = or += factor·from; `factor` is read from memory.
template <typename T> __device__ __forceinline__ void scaled(const T *from, T *to, u64 len, u32 add, const float *factor) {
    const u64 step = u64(gridDim.x) * blockDim.x * 8;
    const float by = *factor;
    for (u64 at = (u64(blockIdx.x) * blockDim.x + threadIdx.x) * 8; at < len; at += step) {
        const u32 count = some(at, len);
        Eight v = load_some(from + at, count), before = Eight{{0}};
        if (add) before = load_some(static_cast<const T *>(to) + at, count);
#pragma unroll
        for (int i = 0; i < 8; i++) v.x[i] = by * v.x[i] + before.x[i];
        store_some(to + at, v, count);
    }
}

#define KERNEL(NAME, ...) extern "C" __global__ void __launch_bounds__(256) NAME(__VA_ARGS__)
#define EACH(DTYPE, T)                                                                                                 \
    KERNEL(combine_##DTYPE, const T *a, const T *b, T *out, u64 len, u64 period, u32 kind) {                            \
        combine(a, b, out, len, period, kind);                                                                         \
    }                                                                                                                  \
    KERNEL(map_##DTYPE, const T *x, T *y, u64 len, u32 kind, float factor) { map(x, y, len, kind, factor); }            \
    KERNEL(map_back_##DTYPE, const T *dy, const T *kept, T *dx, u64 len, u32 kind, float factor, u32 add) {             \
        map_back(dy, kept, dx, len, kind, factor, add);                                                                \
    }                                                                                                                  \
    KERNEL(scaled_##DTYPE, const T *from, T *to, u64 len, u32 add, const float *factor) {                               \
        scaled(from, to, len, add, factor);                                                                            \
    }

EACH(f32, float)
EACH(bf16, bf16)
