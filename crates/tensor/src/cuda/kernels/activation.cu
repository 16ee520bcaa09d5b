// What follows the product of a linear layer: y = dropout(act(x + bias)), and its way back, which on its way adds up the
// gradient of the bias.
//
// After ReLU the output itself says where gradients go; the other activations are told from x, kept without its bias.

enum { NONE, RELU, GELU, GELU_TANH, QUICK_GELU, SILU, TANH, SIGMOID };

__device__ __forceinline__ float logistic(float x) { return 1.0f / (1.0f + __expf(-x)); }

// An activation and its derivative.
__device__ __forceinline__ float2 activate(u32 kind, float x) {
    switch (kind) {
    case RELU:
        return make_float2(x < 0.0f ? 0.0f : x, x > 0.0f ? 1.0f : 0.0f);
    case GELU: {
        const float below = 0.5f * erfcf(-0.70710678f * x);
        return make_float2(x * below, fmaf(x, 0.3989423f * __expf(-0.5f * x * x), below));
    }
    case GELU_TANH: {
        const float root = 0.7978846f, cubic = 0.044715f;
        const float t = 2.0f * logistic(2.0f * root * (x + cubic * x * x * x)) - 1.0f;
        const float slope = root * (1.0f + 3.0f * cubic * x * x);
        return make_float2(0.5f * x * (1.0f + t), 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope);
    }
    case QUICK_GELU: {
        const float u = 1.702f * x, s = logistic(u);
        return make_float2(x * s, s * (1.0f + u * (1.0f - s)));
    }
    case SILU: {
        const float s = logistic(x);
        return make_float2(x * s, s * (1.0f + x * (1.0f - s)));
    }
    case TANH: {
        const float y = tanhf(x);
        return make_float2(y, (1.0f - y) * (1.0f + y));
    }
    case SIGMOID: {
        const float s = logistic(x);
        return make_float2(s, s * logistic(-x));
    }
    }
    return make_float2(x, 1.0f);
}

// y = dropout(act(x + bias)), rows × columns; y may be x, bias may be null. A warp takes 256 numbers of a row at a time.
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
        if (kind != NONE)
#pragma unroll
            for (int i = 0; i < 8; i++) v.x[i] = activate(kind, v.x[i]).x;
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

// dx = mask∘dy·act′; `kept` is y after ReLU, else x (bias added here), null without an activation. Block (x, y) walks rows
// of 256 columns as `column_sum` does; `partials` (null if nobody asks) gets the sums of its share of dx.
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
            // What was dropped is 0 too.
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
            if (kind != NONE)
#pragma unroll
                for (int i = 0; i < 8; i++) v.x[i] *= activate(kind, k.x[i] + shift.x[i]).y;
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

// A ReLU and dropout after it on the way back, the most frequent of them by far: numbers in packs of eight, four at once.
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
    }

BOTH(f32, float)
BOTH(bf16, bf16)
