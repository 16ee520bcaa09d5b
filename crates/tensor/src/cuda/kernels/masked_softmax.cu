// Softmax over the keys of each row's own length, or over a window of them: around the query's position, or around a
// predicted one, where weights are multiplied by a bell curve. A warp has a query. A query without keys has zeros only.

enum { GLOBAL, MONOTONIC, PREDICTIVE };

struct Window {
    u32 first, end;
    float centre, inverse;
};

// The keys of a query; `share` is the predicted position as a share of the length.
__device__ __forceinline__ Window window_of(u32 kind, u32 length, u32 query, u32 distance, float share) {
    Window w{0, length, 0.0f, 0.0f};
    if (kind == MONOTONIC) {
        const u32 at = min(query, length ? length - 1 : 0);
        w.first = at > distance ? at - distance : 0;
        w.end = min(at + distance + 1, length);
    } else if (kind == PREDICTIVE) {
        const float away = float(distance), sigma = away / 2.0f;
        w.centre = float(length) * share;
        w.inverse = 1.0f / (sigma * sigma);
        w.end = min(u32(floorf(w.centre + away)) + 1, length);
        w.first = min(u32(fmaxf(ceilf(w.centre - away), 0.0f)), w.end);
    }
    return w;
}

template <typename T>
__device__ __forceinline__ void forward(const T *scores, T *weights, const u32 *lengths, const T *shares, u64 rows,
                                        u32 q_len, u32 k_len, u32 kind, u32 distance, u32 start) {
    const u64 row = u64(blockIdx.x) * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (row >= rows) return;
    const u32 lane = threadIdx.x % WARP, length = min(lengths[row / q_len], k_len);
    const Window w = window_of(kind, length, u32(row % q_len) + start, distance, shares ? to_float(shares[row]) : 0.0f);
    const T *x = scores + row * k_len;
    float largest = -INFINITY_F, sum = 0.0f;
    for (u32 s = w.first + lane; s < w.end; s += WARP) largest = fmaxf(largest, to_float(x[s]));
    largest = warp_max(largest);
    const float shift = largest == -INFINITY_F ? 0.0f : largest;
    for (u32 s = w.first + lane; s < w.end; s += WARP) sum += expf(to_float(x[s]) - shift);
    sum = warp_sum(sum);
    for (u32 s = lane; s < k_len; s += WARP) {
        const float away = float(s) - w.centre;
        const bool inside = s >= w.first && s < w.end && sum != 0.0f;
        const float bell = w.inverse == 0.0f ? 1.0f : expf(-0.5f * away * away * w.inverse);
        const float y = inside ? expf(to_float(x[s]) - shift) / sum * bell : 0.0f;
        weights[row * k_len + s] = from_float<T>(y);
    }
}

template <typename T>
__device__ __forceinline__ void backward(const T *gradient, const T *weights, T *of_scores, const u32 *lengths,
                                         const T *shares, T *of_shares, u64 rows, u32 q_len, u32 k_len, u32 distance) {
    const u64 row = u64(blockIdx.x) * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (row >= rows) return;
    const u32 lane = threadIdx.x % WARP, length = min(lengths[row / q_len], k_len);
    const T *y = weights + row * k_len, *dy = gradient + row * k_len;
    float mean = 0.0f, moved = 0.0f;
    for (u32 s = lane; s < k_len; s += WARP) mean += to_float(y[s]) * to_float(dy[s]);
    mean = warp_sum(mean);
    const float centre = shares ? float(length) * to_float(shares[row]) : 0.0f, sigma = float(distance) / 2.0f;
    const float inverse = shares ? 1.0f / (sigma * sigma) : 0.0f;
    for (u32 s = lane; s < k_len; s += WARP) {
        const float weight = to_float(y[s]), slope = to_float(dy[s]), away = float(s) - centre;
        // Keys outside the window have weight 0.
        const float over_bell = weight == 0.0f || !shares ? 1.0f : expf(0.5f * away * away * inverse);
        of_scores[row * k_len + s] = from_float<T>(weight * (slope - mean * over_bell));
        moved += weight * slope * away;
    }
    if (!of_shares) return;
    moved = warp_sum(moved);
    if (lane == 0) of_shares[row] = from_float<T>(moved * inverse * float(length));
}

#define KERNEL(NAME, ...) extern "C" __global__ void __launch_bounds__(256) NAME(__VA_ARGS__)
#define EACH(DTYPE, T)                                                                                                 \
    KERNEL(masked_softmax_##DTYPE, const T *scores, T *weights, const u32 *lengths, const T *shares, u64 rows,         \
           u32 q_len, u32 k_len, u32 kind, u32 distance, u32 start) {                                                  \
        forward(scores, weights, lengths, shares, rows, q_len, k_len, kind, distance, start);                          \
    }                                                                                                                  \
    KERNEL(masked_softmax_back_##DTYPE, const T *gradient, const T *weights, T *of_scores, const u32 *lengths,         \
           const T *shares, T *of_shares, u64 rows, u32 q_len, u32 k_len, u32 distance) {                              \
        backward(gradient, weights, of_scores, lengths, shares, of_shares, rows, q_len, k_len, distance);              \
    }

EACH(f32, float)
EACH(bf16, bf16)
