// Rows of `width` values multiplied by a number each: y = f of the row · x.

template <typename T>
__device__ __forceinline__ void scale(const T *x, const float *factors, T *y, u64 len, u64 width) {
    const u64 step = u64(gridDim.x) * blockDim.x * 8;
    for (u64 at = (u64(blockIdx.x) * blockDim.x + threadIdx.x) * 8; at < len; at += step) {
        const u32 count = some(at, len);
        Eight v = load_some(x + at, count);
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < count) v.x[i] *= factors[(at + i) / width];
        store_some(y + at, v, count);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    scale_rows_f32(const float *x, const float *factors, float *y, u64 len, u64 width) {
    scale(x, factors, y, len, width);
}
extern "C" __global__ void __launch_bounds__(256)
    scale_rows_bf16(const bf16 *x, const float *factors, bf16 *y, u64 len, u64 width) {
    scale(x, factors, y, len, width);
}
