// Replaces row r of decoding by row parents[r]: its ancestry, its source sentence and the length of that.
//
// ancestry[p][r] is the slot that holds position p of row r. Keys and values of the newest position before this step, n
// − 1, were written to the slot of their own row, so ancestry[n − 1][r] = parents[r]; for p < n − 1 a line is gathered
// from itself. A block does one line: n lines of ancestry, then `sources`, two lines of n_slots values. Dynamic shared
// memory: `rows` values.

extern "C" __global__ void reorder(u32 *ancestry, u32 *sources, const u32 *place, const u32 *parents, u32 n_slots, u32 rows,
                                   u32 capacity) {
    extern __shared__ u32 line[];
    const u32 len = place[0];
    if (blockIdx.x < capacity && blockIdx.x >= len) return;
    u32 *at = blockIdx.x < capacity ? ancestry + u64(blockIdx.x) * n_slots : sources + u64(blockIdx.x - capacity) * n_slots;
    const bool is_newest = blockIdx.x + 1 == len && blockIdx.x < capacity;
    for (u32 row = threadIdx.x; row < rows; row += blockDim.x) line[row] = is_newest ? parents[row] : at[parents[row]];
    __syncthreads();
    for (u32 row = threadIdx.x; row < rows; row += blockDim.x) at[row] = line[row];
}

// Copies the cache to other slots: to[p][r] = from[p][ancestry[p][r]] for every row, so that position p of row r is in
// slot r. `to` has room for more positions or other slots; a slot has `width` values. A block does one position of one
// row.
template <typename T>
__device__ __forceinline__ void regroup(const T *from, T *to, const u32 *ancestry, u32 old_slots, u32 new_slots, u32 width) {
    const u32 row = blockIdx.x, position = blockIdx.y;
    const bool is_newest = position + 1 == gridDim.y;
    const u32 slot = is_newest ? row : ancestry[u64(position) * old_slots + row];
    const T *source = from + (u64(position) * old_slots + slot) * width;
    T *target = to + (u64(position) * new_slots + row) * width;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) target[i] = source[i];
}

extern "C" __global__ void regroup_f32(const float *from, float *to, const u32 *ancestry, u32 old_slots, u32 new_slots,
                                       u32 width) {
    regroup(from, to, ancestry, old_slots, new_slots, width);
}
extern "C" __global__ void regroup_bf16(const bf16 *from, bf16 *to, const u32 *ancestry, u32 old_slots, u32 new_slots,
                                        u32 width) {
    regroup(from, to, ancestry, old_slots, new_slots, width);
}
