// Column sums of a matrix, rows × columns, in two stages: blocks sum their part of the rows, then the partial sums are
// added in order. For gradients of biases; norms use the second stage for dγ and dβ.

// partials (gridDim.y × columns): warp w of block (x, y) adds rows 8y + w, 8y + w + 8·gridDim.y, … of 256 columns.
template <typename T> __device__ __forceinline__ void add_rows(const T *from, float *partials, u32 rows, u32 columns) {
    __shared__ __align__(16) float sums[8][256];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 column = blockIdx.x * 256 + lane * 8, count = some(column, columns), step = 8 * gridDim.y;
    const bool fast = columns % 8 == 0 && count == 8;
    Eight sum = Eight{{0}};
    u32 row = blockIdx.y * 8 + warp;
    if (fast) {
        // Four loads in flight.
        for (; row + 3 * step < rows; row += 4 * step) {
            Eight v[4];
#pragma unroll
            for (int k = 0; k < 4; k++) v[k] = load8(from + u64(row + k * step) * columns + column);
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int i = 0; i < 8; i++) sum.x[i] += v[k].x[i];
        }
    }
    for (; row < rows && count; row += step) {
        const Eight v = load_some(from + u64(row) * columns + column, count);
#pragma unroll
        for (int i = 0; i < 8; i++) sum.x[i] += v.x[i];
    }
    store8(&sums[warp][lane * 8], sum);
    __syncthreads();
    if (blockIdx.x * 256 + threadIdx.x < columns) {
        float total = 0;
#pragma unroll
        for (int w = 0; w < 8; w++) total += sums[w][threadIdx.x];
        partials[u64(blockIdx.y) * columns + blockIdx.x * 256 + threadIdx.x] = total;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    column_sum_f32(const float *from, float *partials, u32 rows, u32 columns) {
    add_rows(from, partials, rows, columns);
}
extern "C" __global__ void __launch_bounds__(256)
    column_sum_bf16(const bf16 *from, float *partials, u32 rows, u32 columns) {
    add_rows(from, partials, rows, columns);
}

// Sums column c of `partials` (parts × columns) into first[c], or from `split` into second[c − split], times `factor`
// (null: 1), plus the values of `before_…` if not null. 32 columns per block, 32 threads per column.
extern "C" __global__ void __launch_bounds__(1024)
    column_sum_finish(const float *partials, u32 parts, u32 columns, u32 split, float *first, float *second,
                      const float *before_first, const float *before_second, const float *factor) {
    __shared__ float sums[WARP][WARP + 1];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, column = blockIdx.x * WARP + lane;
    float sum = 0;
    if (column < columns)
        for (u32 part = warp; part < parts; part += WARP) sum += partials[u64(part) * columns + column];
    sums[warp][lane] = sum;
    __syncthreads();
    // Now each warp has a column.
    const float total = warp_sum(sums[lane][warp]) * (factor ? *factor : 1.0f);
    const u32 mine = blockIdx.x * WARP + warp;
    if (lane != 0 || mine >= columns) return;
    float *to = mine < split ? first : second;
    if (!to) return;
    const float *before = mine < split ? before_first : before_second;
    const u32 at = mine < split ? mine : mine - split;
    to[at] = before ? before[at] + total : total;
}
