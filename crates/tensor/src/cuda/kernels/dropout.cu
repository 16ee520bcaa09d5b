// Dropout: y = residual + mask∘x, the residual being optional; a value's index in the mask is its index in x. The
// backward pass, dx = mask∘dy, is the same without a residual, or with dx so far as the residual.

template <typename T>
__device__ __forceinline__ void drop(const T *x, const T *residual, T *y, u64 len, const Dropout &dropout) {
    const u32 lane = threadIdx.x % WARP;
    const uint2 key = dropout_key(dropout);
    const u64 step = u64(gridDim.x) * blockDim.x * 8;
    const float scale = dropout.threshold ? dropout.scale : 1.0f;
    for (u64 first = (u64(blockIdx.x) * blockDim.x + threadIdx.x - lane) * 8; first < len; first += 2 * step) {
        // Two loads in flight.
        Eight v[2], r[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const u64 at = first + k * step + lane * 8;
            v[k] = load_some(x + at, some(at, len));
            r[k] = residual ? load_some(residual + at, some(at, len)) : Eight{{0}};
        }
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const u64 at = first + k * step + lane * 8;
            if (first + k * step >= len) break;
            const u32 bits = dropout.threshold ? warp_keep_bits(dropout, key, first + k * step) : 0xffu;
#pragma unroll
            for (int i = 0; i < 8; i++) v[k].x[i] = (bits >> i & 1 ? v[k].x[i] * scale : 0.0f) + r[k].x[i];
            store_some(y + at, v[k], some(at, len));
        }
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

// Draws bits for 256·draws values in the order of their index, by a warp for every 256.
extern "C" __global__ void __launch_bounds__(256) dropout_bits_u32(u32 *bits, u64 draws, Dropout dropout) {
    const uint2 key = dropout_key(dropout);
    const u64 step = u64(gridDim.x) * (blockDim.x / WARP);
    for (u64 i = u64(blockIdx.x) * (blockDim.x / WARP) + threadIdx.x / WARP; i < draws; i += step) {
        draw_bits(bits + i * DRAWN_WORDS, dropout, key, 2 * i);
    }
}
