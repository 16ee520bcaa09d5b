// Replaces row r of decoding by row parents[r]: its ancestry, its source sentence and the length of that (in each source).
//
// ancestry[p][r] is the slot that holds position p of row r. Keys and values of the newest position before this step, n
// − 1, were written to the slot of their own row, so ancestry[n − 1][r] = parents[r]; for p < n − 1 a line is gathered
// from itself. A block does one line: n lines of ancestry, then `sources`, two or more lines of n_slots values. Dynamic shared
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

// Copies the cache to other slots and lines: to[target + p][first + r] = from[source + p][ancestry[source + p][r]] for every
// row, so that a line of row r is in slot first + r. `to` has room for more lines or other slots; a slot has `width` values.
// A block does one line of one row.
template <typename T>
__device__ __forceinline__ void regroup(const T *from, T *to, const u32 *ancestry, u32 old_slots, u32 new_slots, u32 source,
                                        u32 target, u32 first, u32 width) {
    const u32 row = blockIdx.x, line = source + blockIdx.y;
    const bool is_newest = blockIdx.y + 1 == gridDim.y;
    const u32 slot = is_newest ? row : ancestry[u64(line) * old_slots + row];
    const T *read = from + (u64(line) * old_slots + slot) * width;
    T *written = to + (u64(target + blockIdx.y) * new_slots + first + row) * width;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) written[i] = read[i];
}

// Writes keys and values of whole sequences, rows × length × stride, to the cache: token t of row r to line starts[r] + t
// of slot r, if that is below `lines`. A block does one token of one row.
template <typename T>
__device__ __forceinline__ void fill(const T *keys, u32 key_stride, u32 key_start, u32 key_width, const T *values,
                                     u32 value_stride, u32 value_start, u32 value_width, T *cache, const u32 *starts,
                                     u32 n_slots, u32 lines, u32 length) {
    const u32 row = blockIdx.x, token = blockIdx.y, line = starts[row] + token;
    if (line >= lines) return;
    const u64 from = u64(row) * length + token;
    const T *key = keys + from * key_stride + key_start, *value = values + from * value_stride + value_start;
    T *to = cache + (u64(line) * n_slots + row) * (key_width + value_width);
    for (u32 i = threadIdx.x; i < key_width; i += blockDim.x) to[i] = key[i];
    for (u32 i = threadIdx.x; i < value_width; i += blockDim.x) to[key_width + i] = value[i];
}

#define EACH(DTYPE, T)                                                                                                    \
    extern "C" __global__ void regroup_##DTYPE(const T *from, T *to, const u32 *ancestry, u32 old_slots, u32 new_slots,   \
                                               u32 source, u32 target, u32 first, u32 width) {                            \
        regroup(from, to, ancestry, old_slots, new_slots, source, target, first, width);                                  \
    }                                                                                                                     \
    extern "C" __global__ void fill_##DTYPE(const T *keys, u32 key_stride, u32 key_start, u32 key_width, const T *values, \
                                            u32 value_stride, u32 value_start, u32 value_width, T *cache,                 \
                                            const u32 *starts, u32 n_slots, u32 lines, u32 length) {                      \
        fill(keys, key_stride, key_start, key_width, values, value_stride, value_start, value_width, cache, starts,       \
             n_slots, lines, length);                                                                                     \
    }
EACH(f32, float)
EACH(bf16, bf16)
