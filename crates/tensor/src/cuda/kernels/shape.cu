// Copies rows of one matrix into a range of the rows of another, to slice and concatenate tensors along an axis.

// to[r·to_stride + c] = or += from[r·from_stride + c] for r < rows, c < width; eight values per thread.
template <typename T>
__device__ __forceinline__ void copy_rows(const T *from, T *to, u64 rows, u64 width, u64 from_stride, u64 to_stride,
                                          u32 add) {
    const u64 groups = (width + 7) / 8, tasks = rows * groups, step = u64(gridDim.x) * blockDim.x;
    for (u64 task = u64(blockIdx.x) * blockDim.x + threadIdx.x; task < tasks; task += step) {
        const u64 row = task / groups, column = task % groups * 8;
        const u32 count = some(column, width);
        T *out = to + row * to_stride + column;
        Eight v = load_some(from + row * from_stride + column, count);
        if (add) {
            const Eight before = load_some(static_cast<const T *>(out), count);
#pragma unroll
            for (int i = 0; i < 8; i++) v.x[i] += before.x[i];
        }
        store_some(out, v, count);
    }
}

#define EACH(DTYPE, T)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) copy_rows_##DTYPE(                                               \
        const T *from, T *to, u64 rows, u64 width, u64 from_stride, u64 to_stride, u32 add) {                          \
        copy_rows(from, to, rows, width, from_stride, to_stride, add);                                                 \
    }
EACH(f32, float)
EACH(bf16, bf16)
