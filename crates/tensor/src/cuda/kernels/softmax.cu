// Softmax over the last axis, its logarithm, and the backward passes: dx = y ∘ (dy − Σ y∘dy), dx = dy − eʸ·Σ dy for the
// logarithm. A row of only −∞ gives zeros, and −∞ as the logarithm. A block has a row.

template <typename T, bool LOG> __device__ __forceinline__ void forward(const T *x, T *y, u32 width) {
    __shared__ float scratch[WARP];
    x += u64(blockIdx.x) * width;
    y += u64(blockIdx.x) * width;
    float largest = -INFINITY_F, sum = 0;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) largest = fmaxf(largest, to_float(x[i]));
    largest = block_max(largest, scratch);
    const float shift = largest == -INFINITY_F ? 0.0f : largest;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) sum += expf(to_float(x[i]) - shift);
    sum = block_sum(sum, scratch);
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum, log = sum == 0.0f ? 0.0f : logf(sum);
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
        const float v = to_float(x[i]) - shift;
        y[i] = from_float<T>(LOG ? v - log : expf(v) * inverse);
    }
}

template <typename T, bool LOG> __device__ __forceinline__ void backward(const T *dy, const T *y, T *dx, u32 width) {
    __shared__ float scratch[WARP];
    const u64 start = u64(blockIdx.x) * width;
    float sum = 0;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x)
        sum += to_float(dy[start + i]) * (LOG ? 1.0f : to_float(y[start + i]));
    sum = block_sum(sum, scratch);
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
        const float d = to_float(dy[start + i]), v = to_float(y[start + i]);
        dx[start + i] = from_float<T>(LOG ? d - expf(v) * sum : v * (d - sum));
    }
}

#define EACH(NAME, LOG, DTYPE, T)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256) NAME##_##DTYPE(const T *x, T *y, u32 width) {                    \
        forward<T, LOG>(x, y, width);                                                                                  \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) NAME##_back_##DTYPE(const T *dy, const T *y, T *dx, u32 width) { \
        backward<T, LOG>(dy, y, dx, width);                                                                            \
    }

EACH(softmax, false, f32, float)
EACH(softmax, false, bf16, bf16)
EACH(log_softmax, true, f32, float)
EACH(log_softmax, true, bf16, bf16)
