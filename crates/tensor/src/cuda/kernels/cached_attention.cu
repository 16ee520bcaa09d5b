// Attention of one new query per row to the K/V cache, for decoding token by token.
//
// out = softmax(scale · q·(k_p + a_{p−n}) over the positions p)·(v_p + b_{p−n}); a and b are optional vectors of
// distances. A warp does one head of one row. Groups of its lanes take positions in turn, a lane eight values of a
// head, each group with a running maximum and sum (Milakov & Gimelshein 2018); the groups are joined at the end in a
// fixed order.
//
// cached_self_*: keys and values of line p of row r are in slot ancestry[p][r], so that reordering hypotheses changes a
// small table, not the cache. A row's positions are counted from its start, the line of its first token. The row's own key
// and value are rotated (rotary) and written to slot r of the newest line; line and starts are read from memory: one
// recorded graph serves all steps.
// cached_cross_*: row r reads slot slots[r], which has lengths[r] positions.
//
// If `weights` is not null, the weights are written too: rows × n_heads × n_weights, 0 beyond the length.

#define UNROLL 4

// Eight values of a head from `first`; 0 beyond `width`. `aligned` if 16-byte loads are possible.
template <typename T, bool aligned> __device__ __forceinline__ Eight head_part(const T *head, u32 first, u32 width) {
    if constexpr (aligned) {
        return first < width ? load8(head + first) : Eight{{0, 0, 0, 0, 0, 0, 0, 0}};
    } else {
        Eight part;
#pragma unroll
        for (u32 i = 0; i < 8; i++) part.x[i] = first + i < width ? to_float(head[first + i]) : 0.0f;
        return part;
    }
}

template <typename T, bool aligned>
__device__ __forceinline__ void keep_part(T *head, u32 first, u32 width, const Eight &part) {
    if constexpr (aligned) {
        if (first < width) store8(head + first, part);
    } else {
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            if (first + i < width) head[first + i] = from_float<T>(part.x[i]);
        }
    }
}

// The same part rotated by the angles of a position: `turn` has width/2 cosines, then width/2 sines. A pair are
// neighbours, or values half a head apart.
template <typename T>
__device__ __forceinline__ Eight turned_part(const T *head, u32 first, u32 width, const float *turn, u32 halves) {
    const u32 half = width / 2;
    Eight part;
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        const u32 at = first + i;
        part.x[i] = 0.0f;
        if (at >= width) continue;
        const bool is_second = halves ? at >= half : at % 2;
        const u32 pair = halves ? at % half : at / 2;
        const u32 partner = halves ? (is_second ? at - half : at + half) : at ^ 1;
        const float own = to_float(head[at]), other = to_float(head[partner]);
        const float cosine = turn[pair], sine = turn[half + pair];
        part.x[i] = to_float(from_float<T>(is_second ? other * sine + own * cosine : own * cosine - other * sine));
    }
    return part;
}

__device__ __forceinline__ float dot(const Eight &a, const Eight &b) {
    float sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < 8; i++) sum = fmaf(a.x[i], b.x[i], sum);
    return sum;
}

// Sum over the lanes of a group.
template <u32 lanes> __device__ __forceinline__ float group_sum(float x) {
#pragma unroll
    for (u32 step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

// e^(x − largest), or 0 while nothing is visible and `largest` is −∞.
__device__ __forceinline__ float shifted_exp(float x, float largest) {
    return x == -INFINITY_F ? 0.0f : __expf(x - largest);
}

// Running sums of attention.
struct Mixed {
    float largest, sum;
    Eight context;
};

__device__ __forceinline__ void add_position(Mixed &mixed, float score, const Eight &value) {
    if (score == -INFINITY_F) return;
    const float largest = fmaxf(mixed.largest, score);
    const float before = shifted_exp(mixed.largest, largest), now = __expf(score - largest);
    mixed.sum = mixed.sum * before + now;
#pragma unroll
    for (u32 i = 0; i < 8; i++) mixed.context.x[i] = fmaf(now, value.x[i], mixed.context.x[i] * before);
    mixed.largest = largest;
}

// Layout of the cached heads, in values: key and value of a position are in one row.
struct Kept {
    u64 slot_stride, position_stride;
    u32 d_key, d_value;
};

// Vectors of distances: row max_distance is distance 0. Null if there are none.
template <typename T> struct Distances {
    const T *keys, *values;
    u32 max_distance;
};

template <typename T, bool aligned>
__device__ __forceinline__ void add_distance(Eight &part, const T *table, u32 max_distance, u32 back, u32 first, u32 width) {
    const u32 row = max_distance - min(back, max_distance);
    const Eight more = head_part<T, aligned>(table + u64(row) * width, first, width);
#pragma unroll
    for (u32 i = 0; i < 8; i++) part.x[i] += more.x[i];
}

// Processes positions 0 … len − 1 of one head. `slot_of(p)` is the slot of position p, `sees(p)` is true if it is
// visible. `newest` is the query's position, for distances.
template <typename T, u32 lanes, bool aligned, typename SlotOf, typename Sees>
__device__ __forceinline__ void attend(Mixed &mixed, const Eight &query, const T *keys, const T *values, const Kept &kept,
                                       u32 len, u32 newest, const Distances<T> &distances, float scale, float *weights,
                                       SlotOf slot_of, Sees sees) {
    constexpr u32 groups = WARP / lanes;
    const u32 lane = threadIdx.x % WARP, group = lane / lanes, first = lane % lanes * 8;
    for (u32 start = 0; start < len; start += groups * UNROLL) {
        Eight key[UNROLL], value[UNROLL];
#pragma unroll
        for (u32 j = 0; j < UNROLL; j++) {
            // Beyond the end the last position is read again, and ignored.
            const u32 position = min(start + j * groups + group, len - 1);
            const u64 at = slot_of(position) * kept.slot_stride + position * kept.position_stride;
            key[j] = head_part<T, aligned>(keys + at, first, kept.d_key);
            value[j] = head_part<T, aligned>(values + at, first, kept.d_value);
        }
#pragma unroll
        for (u32 j = 0; j < UNROLL; j++) {
            const u32 position = start + j * groups + group;
            const u32 back = newest - min(position, newest);
            if (distances.keys) {
                add_distance<T, aligned>(key[j], distances.keys, distances.max_distance, back, first, kept.d_key);
            }
            if (distances.values) {
                add_distance<T, aligned>(value[j], distances.values, distances.max_distance, back, first, kept.d_value);
            }
            const float product = group_sum<lanes>(dot(query, key[j])) * scale;
            const float score = position < len && sees(position) ? product : -INFINITY_F;
            add_position(mixed, score, value[j]);
            if (weights && position < len && lane % lanes == 0) weights[position] = score;
        }
    }
}

// Joins the groups of a warp: afterwards all lanes at the same place of a group hold the same values.
template <u32 lanes> __device__ __forceinline__ void join(Mixed &mixed) {
#pragma unroll
    for (u32 step = lanes; step < WARP; step *= 2) {
        const float other_largest = __shfl_xor_sync(ALL_LANES, mixed.largest, step);
        const float other_sum = __shfl_xor_sync(ALL_LANES, mixed.sum, step);
        const float largest = fmaxf(mixed.largest, other_largest);
        const float own = shifted_exp(mixed.largest, largest), other = shifted_exp(other_largest, largest);
        mixed.sum = mixed.sum * own + other_sum * other;
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const float theirs = __shfl_xor_sync(ALL_LANES, mixed.context.x[i], step);
            mixed.context.x[i] = mixed.context.x[i] * own + theirs * other;
        }
        mixed.largest = largest;
    }
}

template <typename T, u32 lanes, bool aligned>
__device__ __forceinline__ void finish(Mixed &mixed, T *out, u32 d_value, float *weights, u32 len, u32 n_weights) {
    const u32 lane = threadIdx.x % WARP;
    const float inverse = mixed.sum > 0.0f ? 1.0f / mixed.sum : 0.0f;
#pragma unroll
    for (u32 i = 0; i < 8; i++) mixed.context.x[i] *= inverse;
    if (lane < lanes) keep_part<T, aligned>(out, lane * 8, d_value, mixed.context);
    if (weights) {
        __syncwarp();
        for (u32 position = lane; position < n_weights; position += WARP) {
            weights[position] = position < len ? shifted_exp(weights[position], mixed.largest) * inverse : 0.0f;
        }
    }
}

__device__ __forceinline__ Mixed nothing() { return Mixed{-INFINITY_F, 0.0f, Eight{{0, 0, 0, 0, 0, 0, 0, 0}}}; }

// Arguments of the kernels, besides their own arrays.
struct Sizes {
    u32 rows, n_heads, n_key_heads, d_key, d_value;
};

template <typename T, u32 lanes, bool aligned>
__device__ __forceinline__ void cached_self(const T *projected, T *cache, T *out, const u32 *place, const u32 *starts,
                                            const u32 *ancestry, u32 n_slots, const float *turns, u32 halves, const Distances<T> &distances,
                                            const u32 *seen, u32 seen_words, Sizes sizes, float scale, float *weights,
                                            u32 n_weights) {
    const u32 index = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (index >= sizes.rows * sizes.n_heads) return;
    const u32 row = index / sizes.n_heads, head = index % sizes.n_heads;
    const u32 shared_by = sizes.n_heads / sizes.n_key_heads, key_head = head / shared_by;
    const u32 queries = sizes.n_heads * sizes.d_key, keys = sizes.n_key_heads * sizes.d_key;
    const u32 width = keys + sizes.n_key_heads * sizes.d_value;
    const u32 start = starts[row], position = place[0] - start;
    const Kept kept = {width, u64(n_slots) * width, sizes.d_key, sizes.d_value};
    const u32 lane = threadIdx.x % WARP, first = lane % lanes * 8;
    const T *own = projected + u64(row) * (queries + width);
    const T *own_key = own + queries + key_head * sizes.d_key;
    const T *own_value = own + queries + keys + key_head * sizes.d_value;
    Eight query, key, value = head_part<T, aligned>(own_value, first, sizes.d_value);
    if (turns) {
        const float *turn = turns + u64(position) * sizes.d_key;
        query = turned_part(own + head * sizes.d_key, first, sizes.d_key, turn, halves);
        key = turned_part(own_key, first, sizes.d_key, turn, halves);
    } else {
        query = head_part<T, aligned>(own + head * sizes.d_key, first, sizes.d_key);
        key = head_part<T, aligned>(own_key, first, sizes.d_key);
    }
    // From the row's first line on.
    T *own_cache = cache + start * kept.position_stride;
    const u32 *slots = ancestry + u64(start) * n_slots + row;
    T *kept_keys = own_cache + key_head * sizes.d_key, *kept_values = own_cache + keys + key_head * sizes.d_value;
    if (head % shared_by == 0 && lane < lanes) {
        const u64 at = row * kept.slot_stride + position * kept.position_stride;
        keep_part<T, aligned>(kept_keys + at, first, sizes.d_key, key);
        keep_part<T, aligned>(kept_values + at, first, sizes.d_value, value);
    }
    float *own_weights = weights ? weights + u64(index) * n_weights : nullptr;
    const u32 *line = seen ? seen + u64(position) * seen_words : nullptr;
    const auto sees = [=](u32 p) { return !line || (line[p / 32] >> p % 32 & 1); };
    Mixed mixed = nothing();
    attend<T, lanes, aligned>(
        mixed, query, kept_keys, kept_values, kept, position, position, distances, scale, own_weights,
        [=](u32 p) { return u64(slots[u64(p) * n_slots]); }, sees);
    // The newest key comes from registers: this launch does not read what it writes to memory.
    if (distances.keys) add_distance<T, aligned>(key, distances.keys, distances.max_distance, 0, first, sizes.d_key);
    if (distances.values) {
        add_distance<T, aligned>(value, distances.values, distances.max_distance, 0, first, sizes.d_value);
    }
    const float product = group_sum<lanes>(dot(query, key)) * scale;
    const float score = sees(position) ? product : -INFINITY_F;
    if (lane < lanes) add_position(mixed, score, value);
    if (own_weights && lane == 0) own_weights[position] = score;
    join<lanes>(mixed);
    finish<T, lanes, aligned>(mixed, out + u64(index) * sizes.d_value, sizes.d_value, own_weights, position + 1, n_weights);
}

template <typename T, u32 lanes, bool aligned>
__device__ __forceinline__ void cached_cross(const T *query_rows, const T *memory, T *out, const u32 *slots,
                                             const u32 *lengths, u32 max_len, Sizes sizes, float scale, float *weights) {
    const u32 index = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (index >= sizes.rows * sizes.n_heads) return;
    const u32 row = index / sizes.n_heads, head = index % sizes.n_heads;
    const u32 key_head = head / (sizes.n_heads / sizes.n_key_heads), keys = sizes.n_key_heads * sizes.d_key;
    const u32 width = keys + sizes.n_key_heads * sizes.d_value, len = lengths[row], slot = slots[row];
    const Kept kept = {u64(max_len) * width, width, sizes.d_key, sizes.d_value};
    const u32 first = threadIdx.x % WARP % lanes * 8;
    const Eight query = head_part<T, aligned>(query_rows + u64(index) * sizes.d_key, first, sizes.d_key);
    float *own_weights = weights ? weights + u64(index) * max_len : nullptr;
    Mixed mixed = nothing();
    attend<T, lanes, aligned>(
        mixed, query, memory + key_head * sizes.d_key, memory + keys + key_head * sizes.d_value, kept, len, 0,
        Distances<T>{nullptr, nullptr, 0}, scale, own_weights, [=](u32) { return u64(slot); }, [](u32) { return true; });
    join<lanes>(mixed);
    finish<T, lanes, aligned>(mixed, out + u64(index) * sizes.d_value, sizes.d_value, own_weights, len, max_len);
}

// `lanes` per group: the power of two that covers the wider of key and value, eight values each.
#define BY_LANES(call)                                                                                                       \
    if (!is_aligned) { call(32, false); return; }                                                                            \
    switch (lanes) {                                                                                                         \
    case 1: call(1, true); break;                                                                                            \
    case 2: call(2, true); break;                                                                                            \
    case 4: call(4, true); break;                                                                                            \
    case 8: call(8, true); break;                                                                                            \
    case 16: call(16, true); break;                                                                                          \
    default: call(32, true);                                                                                                 \
    }

#define CACHED_SELF(T, suffix)                                                                                               \
    extern "C" __global__ void __launch_bounds__(128, 4) cached_self_##suffix(                                                  \
        const T *projected, T *cache, T *out, const u32 *place, const u32 *starts, const u32 *ancestry, u32 n_slots, const float *turns, \
        u32 halves, const T *distance_keys, const T *distance_values, u32 max_distance, const u32 *seen, u32 seen_words,     \
        u32 rows, u32 n_heads, u32 n_key_heads, u32 d_key, u32 d_value, u32 lanes, u32 is_aligned, float scale,              \
        float *weights, u32 n_weights) {                                                                                     \
        const Sizes sizes = {rows, n_heads, n_key_heads, d_key, d_value};                                                    \
        const Distances<T> distances = {distance_keys, distance_values, max_distance};                                       \
        BY_LANES(SELF_CALL_##suffix)                                                                                         \
    }
#define SELF_CALL(T, n, aligned)                                                                                             \
    cached_self<T, n, aligned>(projected, cache, out, place, starts, ancestry, n_slots, turns, halves, distances, seen, seen_words,  \
                               sizes, scale, weights, n_weights)
#define SELF_CALL_f32(n, aligned) SELF_CALL(float, n, aligned)
#define SELF_CALL_bf16(n, aligned) SELF_CALL(bf16, n, aligned)

#define CACHED_CROSS(T, suffix)                                                                                              \
    extern "C" __global__ void __launch_bounds__(128, 4) cached_cross_##suffix(                                                 \
        const T *query, const T *memory, T *out, const u32 *slots, const u32 *lengths, u32 max_len, u32 rows, u32 n_heads,   \
        u32 n_key_heads, u32 d_key, u32 d_value, u32 lanes, u32 is_aligned, float scale, float *weights) {                   \
        const Sizes sizes = {rows, n_heads, n_key_heads, d_key, d_value};                                                    \
        BY_LANES(CROSS_CALL_##suffix)                                                                                        \
    }
#define CROSS_CALL(T, n, aligned)                                                                                            \
    cached_cross<T, n, aligned>(query, memory, out, slots, lengths, max_len, sizes, scale, weights)
#define CROSS_CALL_f32(n, aligned) CROSS_CALL(float, n, aligned)
#define CROSS_CALL_bf16(n, aligned) CROSS_CALL(bf16, n, aligned)

CACHED_SELF(float, f32)
CACHED_SELF(bf16, bf16)
CACHED_CROSS(float, f32)
CACHED_CROSS(bf16, bf16)
