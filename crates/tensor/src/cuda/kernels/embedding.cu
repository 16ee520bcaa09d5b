// Embedding: y_t = scale · E(id_t) + position_(t mod length), and the backward pass, dE(id) += scale · Σ dy_t.
//
// The backward pass uses no atomics: positions are sorted by id (a stable radix sort by one block), the sorted list is
// cut into chunks of equal length, and a warp sums the runs of equal ids in its chunk. A run inside a chunk goes
// straight to the table; a run that crosses chunks leaves a part in each chunk, and the parts are added in order. An id
// that fills half of the batch costs no more than others.

// T: the table, O: y. An id outside the table gives NaN.
template <typename T, typename O>
__device__ __forceinline__ void look_up(const u32 *ids, const T *table, const float *positions, O *y, u32 tokens,
                                        u32 length, u32 vocab_size, u32 width, float scale) {
    const u32 groups = (width + 7) / 8;
    const u64 tasks = u64(tokens) * groups, step = u64(gridDim.x) * blockDim.x;
    for (u64 task = u64(blockIdx.x) * blockDim.x + threadIdx.x; task < tasks; task += step) {
        const u32 token = u32(task / groups), column = u32(task % groups) * 8, count = some(column, width);
        const u32 id = ids[token];
        Eight v, p = Eight{{0}};
        if (positions) p = load_some(positions + u64(token % length) * width + column, count);
        if (id < vocab_size) v = load_some(table + u64(id) * width + column, count);
        else
            for (int i = 0; i < 8; i++) v.x[i] = __int_as_float(0x7fc00000);
#pragma unroll
        for (int i = 0; i < 8; i++) v.x[i] = v.x[i] * scale + p.x[i];
        store_some(y + u64(token) * width + column, v, count);
    }
}

#define LOOK_UP(NAME, T, O)                                                                                            \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        NAME(const u32 *ids, const T *table, const float *positions, O *y, u32 tokens, u32 length, u32 vocab_size,     \
             u32 width, float scale) {                                                                                 \
        look_up(ids, table, positions, y, tokens, length, vocab_size, width, scale);                                   \
    }
LOOK_UP(embedding_f32, float, float)
LOOK_UP(embedding_bf16, bf16, bf16)

#define SORT_WARPS 32
#define DIGITS 256
#define TOGETHER 8
#define BATCH 4

// order: 0 … tokens − 1 sorted by id, equal ids in their original order; sorted: their ids; `other` is a buffer of the
// same length. Ids ≥ vocab_size are sorted as vocab_size. One block of 1024 threads; `passes` of eight bits each.
extern "C" __global__ void __launch_bounds__(1024)
    embedding_sort(const u32 *ids, u32 *order, u32 *sorted, u32 *other, u32 tokens, u32 vocab_size, u32 passes) {
    __shared__ u32 places[SORT_WARPS][DIGITS];
    __shared__ u32 sums[SORT_WARPS];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 rounds = (tokens + SORT_WARPS * WARP - 1) / (SORT_WARPS * WARP), first = warp * rounds * WARP;
    // The last pass writes `order`.
    u32 *from = passes % 2 ? other : order, *to = passes % 2 ? order : other;
    for (u32 pass = 0; pass < passes; pass++) {
        for (u32 i = threadIdx.x; i < SORT_WARPS * DIGITS; i += blockDim.x) places[i / DIGITS][i % DIGITS] = 0;
        __syncthreads();
        u32 positions[TOGETHER], keys[TOGETHER];
        // Several rounds are loaded at once; past the end the key is all ones.
        auto fetch = [&](u32 round) {
#pragma unroll
            for (u32 i = 0; i < TOGETHER; i++) {
                const u32 at = first + (round + i) * WARP + lane;
                const bool there = round + i < rounds && at < tokens;
                positions[i] = !there ? ~0u : pass ? from[at] : at;
            }
#pragma unroll
            for (u32 i = 0; i < TOGETHER; i++) keys[i] = ~positions[i] ? min(ids[positions[i]], vocab_size) : ~0u;
        };
        auto digit_of = [&](u32 i) { return ~positions[i] ? keys[i] >> (8 * pass) & 0xff : u32(DIGITS); };
        // Counting: each warp its own range; the first lane of equal digits counts for all of them.
        for (u32 round = 0; round < rounds; round += TOGETHER) {
            fetch(round);
#pragma unroll
            for (u32 i = 0; i < TOGETHER; i++) {
                const u32 digit = digit_of(i), equal = __match_any_sync(ALL_LANES, digit);
                if (digit < DIGITS && lane == __ffs(equal) - 1) places[warp][digit] += __popc(equal);
                __syncwarp();
            }
        }
        __syncthreads();
        // Offset of each warp's entries of a digit: all smaller digits, then earlier warps. Four threads per digit.
        const u32 digit = threadIdx.x / 4, quarter = threadIdx.x % 4 * 8;
        u32 sum = 0;
#pragma unroll
        for (u32 w = 0; w < 8; w++) sum += places[quarter + w][digit];
        u32 before = sum;
#pragma unroll
        for (u32 step = 1; step < WARP; step *= 2) {
            const u32 left = __shfl_up_sync(ALL_LANES, before, step);
            if (lane >= step) before += left;
        }
        if (lane == WARP - 1) sums[warp] = before;
        __syncthreads();
        u32 warps = lane < warp ? sums[lane] : 0;
        warps = __reduce_add_sync(ALL_LANES, warps);
        u32 place = before - sum + warps;
#pragma unroll
        for (u32 w = 0; w < 8; w++) {
            const u32 here = places[quarter + w][digit];
            places[quarter + w][digit] = place;
            place += here;
        }
        __syncthreads();
        for (u32 round = 0; round < rounds; round += TOGETHER) {
            // If there is a single batch of rounds, its keys are still in registers.
            if (rounds > TOGETHER) fetch(round);
#pragma unroll
            for (u32 i = 0; i < TOGETHER; i++) {
                const u32 digit = digit_of(i), equal = __match_any_sync(ALL_LANES, digit);
                const u32 base = digit < DIGITS ? places[warp][digit] : 0;
                __syncwarp();
                if (digit < DIGITS) {
                    const u32 at = base + __popc(equal & ((1u << lane) - 1));
                    to[at] = positions[i];
                    if (pass + 1 == passes) sorted[at] = keys[i];
                    if (lane == __ffs(equal) - 1) places[warp][digit] = base + __popc(equal);
                }
                __syncwarp();
            }
        }
        __syncthreads();
        u32 *const swap = from;
        from = to;
        to = swap;
    }
}

// A warp sums 256 columns (blockIdx.y) of one chunk of the sorted list. `parts` (chunks × 2 × width): the run that
// continues from the previous chunk, and the one that continues into the next; a run that does both is in the first
// place.
template <typename T>
__device__ __forceinline__ void add_chunk(const T *dy, const u32 *order, const u32 *sorted, float *table, float *parts,
                                          u32 tokens, u32 chunk, u32 vocab_size, u32 width, float scale) {
    const u32 lane = threadIdx.x % WARP, index = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const u32 begin = index * chunk, end = min(begin + chunk, tokens);
    const u32 column = blockIdx.y * 256 + lane * 8, count = some(column, width);
    if (begin >= tokens) return;
    const u32 before = begin ? sorted[begin - 1] : ~0u, after = end < tokens ? sorted[end] : ~0u;
    Eight sum = Eight{{0}};
    for (u32 base = begin; base < end; base += WARP) {
        // A lane holds one position and its id.
        const u32 at = min(base + lane, end - 1), position = order[at], id = sorted[at];
        const u32 next_id = at + 1 < end ? sorted[at + 1] : ~0u;
        const u32 len = min(end - base, WARP);
        for (u32 start = 0; start < len; start += BATCH) {
            // All loads of a batch are issued at once: rows, and the table's values where a run ends.
            Eight rows[BATCH], held[BATCH];
            u32 now[BATCH];
            bool ends[BATCH], goes_on[BATCH];
#pragma unroll
            for (u32 i = 0; i < BATCH; i++) {
                const u32 which = min(start + i, len - 1), p = __shfl_sync(ALL_LANES, position, which);
                now[i] = __shfl_sync(ALL_LANES, id, which);
                ends[i] = now[i] != __shfl_sync(ALL_LANES, next_id, which) && start + i < len;
                goes_on[i] = (base + start + i + 1 == end && now[i] == after) || now[i] == before;
                rows[i] = load_some(dy + u64(p) * width + column, start + i < len ? count : 0);
                held[i] = Eight{{0}};
                if (ends[i] && !goes_on[i] && now[i] < vocab_size)
                    held[i] = load_some(static_cast<const float *>(table) + u64(now[i]) * width + column, count);
            }
#pragma unroll
            for (u32 i = 0; i < BATCH; i++) {
#pragma unroll
                for (int k = 0; k < 8; k++) sum.x[k] += rows[i].x[k];
                if (!ends[i]) continue;
                if (goes_on[i]) {
                    store_some(parts + (u64(index) * 2 + (now[i] != before)) * width + column, sum, count);
                } else if (now[i] < vocab_size) {
#pragma unroll
                    for (int k = 0; k < 8; k++) held[i].x[k] += scale * sum.x[k];
                    store_some(table + u64(now[i]) * width + column, held[i], count);
                }
                sum = Eight{{0}};
            }
        }
    }
}

// Adds the parts of the run that begins in chunk blockIdx.x and continues; 256 columns per block, four threads per
// column.
extern "C" __global__ void __launch_bounds__(1024)
    embedding_join(const u32 *sorted, float *table, const float *parts, u32 tokens, u32 chunk, u32 vocab_size, u32 width,
                   float scale) {
    __shared__ float sums[4][256];
    const u32 index = blockIdx.x, begin = index * chunk, end = begin + chunk;
    if (end >= tokens) return;
    const u32 id = sorted[end - 1];
    if (id >= vocab_size || sorted[end] != id) return;
    // It began earlier if the last entry of the previous chunk has this id too.
    if (begin && sorted[begin - 1] == id) return;
    // Number of following chunks that begin inside the run.
    u32 last = index + 1, inside = blockDim.x;
    while (inside == blockDim.x) {
        const u64 at = u64(last + threadIdx.x) * chunk;
        inside = __syncthreads_count(at < tokens && sorted[at] == id);
        last += inside;
    }
    const u32 group = threadIdx.x / 256, column = blockIdx.y * 256 + threadIdx.x % 256;
    float sum = 0;
    if (column < width)
#pragma unroll 8
        for (u32 next = index + 1 + group; next < last; next += 4) sum += parts[u64(next) * 2 * width + column];
    sums[group][threadIdx.x % 256] = sum;
    __syncthreads();
    if (group || column >= width) return;
    sum = parts[(u64(index) * 2 + 1) * width + column];
    for (u32 other = 0; other < 4; other++) sum += sums[other][threadIdx.x];
    table[u64(id) * width + column] += scale * sum;
}

#define ADD_CHUNK(NAME, T)                                                                                             \
    extern "C" __global__ void __launch_bounds__(128)                                                                  \
        NAME(const T *dy, const u32 *order, const u32 *sorted, float *table, float *parts, u32 tokens, u32 chunk,      \
             u32 vocab_size, u32 width, float scale) {                                                                 \
        add_chunk(dy, order, sorted, table, parts, tokens, chunk, vocab_size, width, scale);                           \
    }
ADD_CHUNK(embedding_add_f32, float)
ADD_CHUNK(embedding_add_bf16, bf16)
