// After the product of a linear layer: y = dropout(act(x + bias)), and its backward pass, which also sums up the
// gradient of the bias.
//
// After ReLU the output itself shows where the gradient is zero; the other activations read x, saved without its bias.

enum { NONE, RELU, GELU, GELU_TANH, QUICK_GELU, SILU, TANH, SIGMOID };

__device__ __forceinline__ float exponential(float x) { return power_of_two(x * LOG2_E); }
__device__ __forceinline__ float logistic(float x) { return __fdividef(1.0f, 1.0f + exponential(-x)); }

// Cumulative distribution function of the normal distribution, as on the CPU: a polynomial for erf near 0, e to the
// power of another further out.
__device__ __forceinline__ float normal_below(float x) {
    const float z = 0.70710678f * x, size = fabsf(z), square = z * z;
    float p = -5.967617e-4f;
    p = fmaf(p, square, 4.9911942e-3f);
    p = fmaf(p, square, -2.6768135e-2f);
    p = fmaf(p, square, 1.12819925e-1f);
    p = fmaf(p, square, -3.7612534e-1f);
    p = fmaf(p, square, 1.2837917e-1f);
    const float near = fmaf(0.5f, fmaf(p, z, z), 0.5f);
    p = -1.7285347e-5f;
    p = fmaf(p, size, 3.8319713e-4f);
    p = fmaf(p, size, -3.8839644e-3f);
    p = fmaf(p, size, 2.4254622e-2f);
    p = fmaf(p, size, -1.0677788e-1f);
    p = fmaf(p, size, -6.348467e-1f);
    p = fmaf(p, size, -1.2871751e-1f);
    const float outside = 0.5f * exponential(fmaf(p, size, -size));
    return size < 0.9277344f ? near : x < 0.0f ? outside : 1.0f - outside;
}

// An activation and its derivative.
template <int KIND> __device__ __forceinline__ float2 activate(float x) {
    if (KIND == RELU) return make_float2(x < 0.0f ? 0.0f : x, x > 0.0f ? 1.0f : 0.0f);
    if (KIND == GELU) {
        const float below = normal_below(x);
        return make_float2(x * below, fmaf(x, 0.3989423f * exponential(-0.5f * x * x), below));
    }
    if (KIND == GELU_TANH) {
        const float root = 0.7978846f, cubic = 0.044715f;
        const float t = 2.0f * logistic(2.0f * root * (x + cubic * x * x * x)) - 1.0f;
        const float slope = root * (1.0f + 3.0f * cubic * x * x);
        return make_float2(0.5f * x * (1.0f + t), 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope);
    }
    if (KIND == QUICK_GELU) {
        const float u = 1.702f * x, s = logistic(u);
        return make_float2(x * s, s * (1.0f + u * (1.0f - s)));
    }
    if (KIND == SILU) {
        const float s = logistic(x);
        return make_float2(x * s, s * (1.0f + x * (1.0f - s)));
    }
    if (KIND == TANH) {
        const float y = tanhf(x);
        return make_float2(y, (1.0f - y) * (1.0f + y));
    }
    if (KIND == SIGMOID) {
        const float s = logistic(x);
        return make_float2(s, s * logistic(-x));
    }
    return make_float2(x, 1.0f);
}

// Sets x to act(x), or v to v·act′(x); the choice is made once for eight values.
template <int KIND> __device__ __forceinline__ void activate8(Eight &x) {
#pragma unroll
    for (int i = 0; i < 8; i++) x.x[i] = activate<KIND>(x.x[i]).x;
}
template <int KIND> __device__ __forceinline__ void slope8(Eight &v, const Eight &x) {
#pragma unroll
    for (int i = 0; i < 8; i++) v.x[i] *= activate<KIND>(x.x[i]).y;
}
#define CHOOSE(KIND, CALL)                                                                                             \
    switch (KIND) {                                                                                                    \
    case RELU: CALL(RELU); break;                                                                                      \
    case GELU: CALL(GELU); break;                                                                                      \
    case GELU_TANH: CALL(GELU_TANH); break;                                                                            \
    case QUICK_GELU: CALL(QUICK_GELU); break;                                                                          \
    case SILU: CALL(SILU); break;                                                                                      \
    case TANH: CALL(TANH); break;                                                                                      \
    case SIGMOID: CALL(SIGMOID); break;                                                                                \
    }

// y = dropout(act(x + bias)), rows × columns; y may be x, bias may be null. A warp processes 256 values of a row at a
// time.
template <typename T>
__device__ __forceinline__ void forward(const T *x, T *y, const T *bias, u32 rows, u32 columns, u32 kind,
                                        const Dropout &dropout) {
    const u32 lane = threadIdx.x % WARP, spans = (columns + 255) / 256;
    const u64 tasks = u64(rows) * spans, warps = u64(gridDim.x) * (blockDim.x / WARP);
    const uint2 key = dropout_key(dropout);
    for (u64 task = u64(blockIdx.x) * (blockDim.x / WARP) + threadIdx.x / WARP; task < tasks; task += warps) {
        const u64 row = task / spans;
        const u32 first = u32(task % spans) * 256, column = first + lane * 8, count = some(column, columns);
        const u64 start = row * columns;
        Eight v = load_some(x + start + column, count);
        if (bias) {
            const Eight b = load_some(bias + column, count);
#pragma unroll
            for (int i = 0; i < 8; i++) v.x[i] += b.x[i];
        }
#define APPLY(KIND) activate8<KIND>(v)
        CHOOSE(kind, APPLY)
        if (dropout.threshold) {
            u32 bits = 0;
            if ((start + first) % 8 == 0) bits = warp_keep_bits_from(dropout, key, start + first);
            else
                for (u32 i = 0; i < count; i++) bits |= u32(keeps(dropout, key, start + column + i)) << i;
#pragma unroll
            for (int i = 0; i < 8; i++) v.x[i] = bits >> i & 1 ? v.x[i] * dropout.scale : 0.0f;
        }
        store_some(y + start + column, v, count);
    }
}

// dx = mask∘dy·act′; `kept` is y after ReLU, else x (the bias is added here), null without an activation. Block (x, y)
// processes rows of 256 columns as `column_sum` does; `partials` (null if not needed) gets the sums of its part of dx.
template <typename T>
__device__ __forceinline__ void backward(const T *dy, const T *kept, const T *bias, T *dx, float *partials,
                                         u32 rows, u32 columns, u32 kind, const Dropout &dropout) {
    __shared__ __align__(16) float sums[8][256];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, first = blockIdx.x * 256;
    const u32 column = first + lane * 8, count = some(column, columns), step = 8 * gridDim.y;
    const uint2 key = dropout_key(dropout);
    Eight sum = Eight{{0}}, shift = Eight{{0}};
    if (bias && kind != RELU) shift = load_some(bias + column, count);
#pragma unroll 2
    for (u32 row = blockIdx.y * 8 + warp; row < rows; row += step) {
        const u64 start = u64(row) * columns;
        Eight v = load_some(dy + start + column, count), k = Eight{{0}};
        if (kept) k = load_some(kept + start + column, count);
        if (kind == RELU) {
            // Dropped values are 0 too.
            const float scale = dropout.threshold ? dropout.scale : 1.0f;
#pragma unroll
            for (int i = 0; i < 8; i++) v.x[i] = k.x[i] == 0.0f ? 0.0f : v.x[i] * scale;
        } else {
            if (dropout.threshold) {
                u32 bits = 0;
                if ((start + first) % 8 == 0) bits = warp_keep_bits_from(dropout, key, start + first);
                else
                    for (u32 i = 0; i < count; i++) bits |= u32(keeps(dropout, key, start + column + i)) << i;
#pragma unroll
                for (int i = 0; i < 8; i++) v.x[i] = bits >> i & 1 ? v.x[i] * dropout.scale : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < 8; i++) k.x[i] += shift.x[i];
#define SLOPE(KIND) slope8<KIND>(v, k)
            CHOOSE(kind, SLOPE)
        }
        store_some(dx + start + column, v, count);
#pragma unroll
        for (int i = 0; i < 8; i++) sum.x[i] += v.x[i];
    }
    if (!partials) return;
    store8(&sums[warp][lane * 8], sum);
    __syncthreads();
    if (first + threadIdx.x < columns) {
        float total = 0;
#pragma unroll
        for (int w = 0; w < 8; w++) total += sums[w][threadIdx.x];
        partials[u64(blockIdx.y) * columns + first + threadIdx.x] = total;
    }
}

// Backward pass of ReLU followed by dropout, by far the most frequent case: eight values per load, four loads in
// flight.
template <typename T>
__device__ __forceinline__ void backward_relu(const T *dy, const T *y, T *dx, float *partials, u32 rows, u32 columns,
                                              float scale) {
    __shared__ __align__(16) float sums[8][256];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, column = blockIdx.x * 256 + lane * 8;
    const u32 step = 8 * gridDim.y;
    Eight sum = Eight{{0}};
    if (column < columns) {
        for (u32 row = blockIdx.y * 8 + warp; row < rows; row += 4 * step) {
            Eight v[4], k[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (row + j * step < rows) {
                    v[j] = load8(dy + u64(row + j * step) * columns + column);
                    k[j] = load8(y + u64(row + j * step) * columns + column);
                }
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (row + j * step < rows) {
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        v[j].x[i] = k[j].x[i] == 0.0f ? 0.0f : v[j].x[i] * scale;
                        sum.x[i] += v[j].x[i];
                    }
                    store8(dx + u64(row + j * step) * columns + column, v[j]);
                }
        }
    }
    if (!partials) return;
    store8(&sums[warp][lane * 8], sum);
    __syncthreads();
    if (blockIdx.x * 256 + threadIdx.x < columns) {
        float total = 0;
#pragma unroll
        for (int w = 0; w < 8; w++) total += sums[w][threadIdx.x];
        partials[u64(blockIdx.y) * columns + blockIdx.x * 256 + threadIdx.x] = total;
    }
}

// y = act(gate) ∘ other; a row of x has `width` values of the gate, then `width` others. A thread does eight columns.
template <typename T>
__device__ __forceinline__ void gated_forward(const T *x, T *y, u32 rows, u32 width, u32 kind) {
    const u32 parts = (width + 7) / 8;
    const u64 tasks = u64(rows) * parts, step = u64(gridDim.x) * blockDim.x;
    for (u64 task = u64(blockIdx.x) * blockDim.x + threadIdx.x; task < tasks; task += step) {
        const u64 row = task / parts;
        const u32 column = u32(task % parts) * 8, count = some(column, width);
        const T *from = x + row * 2 * width + column;
        Eight gate = load_some(from, count);
        const Eight other = load_some(from + width, count);
#define GATE(KIND) activate8<KIND>(gate)
        CHOOSE(kind, GATE)
#pragma unroll
        for (int i = 0; i < 8; i++) gate.x[i] *= other.x[i];
        store_some(y + row * width + column, gate, count);
    }
}

// dx of the same: dy ∘ other ∘ act′(gate), then dy ∘ act(gate).
template <typename T>
__device__ __forceinline__ void gated_backward(const T *dy, const T *x, T *dx, u32 rows, u32 width, u32 kind) {
    const u32 parts = (width + 7) / 8;
    const u64 tasks = u64(rows) * parts, step = u64(gridDim.x) * blockDim.x;
    for (u64 task = u64(blockIdx.x) * blockDim.x + threadIdx.x; task < tasks; task += step) {
        const u64 row = task / parts;
        const u32 column = u32(task % parts) * 8, count = some(column, width);
        const u64 at = row * 2 * width + column;
        const Eight gate = load_some(x + at, count), g = load_some(dy + row * width + column, count);
        Eight other = load_some(x + at + width, count), value = gate;
#pragma unroll
        for (int i = 0; i < 8; i++) other.x[i] *= g.x[i];
#define GATE_SLOPE(KIND) slope8<KIND>(other, gate)
        CHOOSE(kind, GATE_SLOPE)
        store_some(dx + at, other, count);
#define GATE_VALUE(KIND) activate8<KIND>(value)
        CHOOSE(kind, GATE_VALUE)
#pragma unroll
        for (int i = 0; i < 8; i++) value.x[i] *= g.x[i];
        store_some(dx + at + width, value, count);
    }
}

#define BOTH(DTYPE, T)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) activation_forward_##DTYPE(                                      \
        const T *x, T *y, const T *bias, u32 rows, u32 columns, u32 kind, Dropout dropout) {                       \
        forward(x, y, bias, rows, columns, kind, dropout);                                                             \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        activation_backward_##DTYPE(const T *dy, const T *kept, const T *bias, T *dx, float *partials, u32 rows,   \
                                    u32 columns, u32 kind, Dropout dropout) {                                          \
        backward(dy, kept, bias, dx, partials, rows, columns, kind, dropout);                                          \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) relu_backward_##DTYPE(                                           \
        const T *dy, const T *y, T *dx, float *partials, u32 rows, u32 columns, float scale) {                         \
        backward_relu(dy, y, dx, partials, rows, columns, scale);                                                      \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        gated_forward_##DTYPE(const T *x, T *y, u32 rows, u32 width, u32 kind) {                                       \
        gated_forward(x, y, rows, width, kind);                                                                        \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        gated_backward_##DTYPE(const T *dy, const T *x, T *dx, u32 rows, u32 width, u32 kind) {                        \
        gated_backward(dy, x, dx, rows, width, kind);                                                                  \
    }

BOTH(f32, float)
BOTH(bf16, bf16)
