// Rotary positions: pair i of a head at position p is rotated by the angle of a table, (a, b) ← (a cos − b sin, a sin +
// b cos); the backward pass uses the opposite angle. The table has d_head/2 cosines and then d_head/2 sines per
// position.

template <typename T>
__device__ __forceinline__ void turn(const T *x, T *y, const float *table, u64 pairs, u32 length, u32 n_heads, u32 half,
                                     u32 offset, u32 halves, float sign) {
    const u64 step = u64(gridDim.x) * blockDim.x;
    for (u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x; at < pairs; at += step) {
        const u32 pair = u32(at % half);
        const u64 head = at / half, position = offset + head / n_heads % length;
        const float cos = table[position * 2 * half + pair], sin = sign * table[position * 2 * half + half + pair];
        const u64 left = head * 2 * half + (halves ? pair : 2 * pair), right = left + (halves ? half : 1);
        const float a = to_float(x[left]), b = to_float(x[right]);
        y[left] = from_float<T>(a * cos - b * sin);
        y[right] = from_float<T>(a * sin + b * cos);
    }
}

#define EACH(DTYPE, T)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        rotary_##DTYPE(const T *x, T *y, const float *table, u64 pairs, u32 length, u32 n_heads, u32 half, u32 offset, \
                       u32 halves, float sign) {                                                                       \
        turn(x, y, table, pairs, length, n_heads, half, offset, halves, sign);                                         \
    }
EACH(f32, float)
EACH(bf16, bf16)
