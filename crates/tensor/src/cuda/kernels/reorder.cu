// Row r of decoding becomes what row parents[r] was: its ancestry, its source sentence and how long that is.
//
// ancestry[p][r] is the slot that holds position p of row r. Keys and values of the newest position before this step,
// n − 1, were written to the slot of their own row, so ancestry[n − 1][r] = parents[r]; for p < n − 1 a line is gathered from
// itself. A block does one line: n lines of ancestry, then `sources`, two lines of n_slots numbers. Dynamic shared memory:
// `rows` numbers.

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
