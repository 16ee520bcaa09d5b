// Dropout: y = residual + mask∘x, the residual being optional; a number's place in the mask is its index in x. And its way
// back, dx = mask∘dy, which is the same without a residual, added to what is there if asked.

template <typename T>
__device__ __forceinline__ void drop(const T *x, const T *residual, T *y, u64 len, const Dropout &dropout) {
    const u32 lane = threadIdx.x % WARP;
    const uint2 key = dropout_key(dropout);
    const u64 step = u64(gridDim.x) * blockDim.x * 8;
    for (u64 first = (u64(blockIdx.x) * blockDim.x + threadIdx.x - lane) * 8; first < len; first += step) {
        const u64 at = first + lane * 8;
        const u32 count = some(at, len);
        Eight v = load_some(x + at, count), r = Eight{{0}};
        if (residual) r = load_some(residual + at, count);
        const u32 bits = dropout.threshold ? warp_keep_bits(dropout, key, first) : 0xffu;
        const float scale = dropout.threshold ? dropout.scale : 1.0f;
#pragma unroll
        for (int i = 0; i < 8; i++) v.x[i] = (bits >> i & 1 ? v.x[i] * scale : 0.0f) + r.x[i];
        store_some(y + at, v, count);
    }
}

// y may be x or the residual.
extern "C" __global__ void __launch_bounds__(256)
    dropout_f32(const float *x, const float *residual, float *y, u64 len, Dropout dropout) {
    drop(x, residual, y, len, dropout);
}
extern "C" __global__ void __launch_bounds__(256)
    dropout_bf16(const bf16 *x, const bf16 *residual, bf16 *y, u64 len, Dropout dropout) {
    drop(x, residual, y, len, dropout);
}
