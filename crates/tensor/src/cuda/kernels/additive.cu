// Additive scores of all pairs of query and key, s = vᵀ·tanh(q + k), with tanh(q + k) = 1 − 2r, r = 1/(e²ᑫ·e²ᵏ + 1);
// the exponentials are taken once per query and key. Backward: w = 4·r·(1 − r), dq = Σ_k g·v∘w, dk = Σ_q g·v∘w, dv = Σ
// g·(1 − 2r), each sum in the order of keys, queries or rows.

#define LIMIT 40.0f

// e²ˣ, with x limited to ±LIMIT; NaN stays NaN.
template <typename T> __device__ __forceinline__ void exponentials(const T *x, float *out, u64 len) {
    const u64 step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < len; i += step) {
        float v = to_float(x[i]);
        v = v > LIMIT ? LIMIT : v;
        v = v < -LIMIT ? -LIMIT : v;
        out[i] = expf(2.0f * v);
    }
}

// A warp has one pair.
template <typename T>
__device__ __forceinline__ void scores(const float *query, const float *key, const float *vector, T *out, u32 q_len,
                                       u32 k_len, u32 d, u64 pairs) {
    const u64 pair = u64(blockIdx.x) * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (pair >= pairs) return;
    const u64 row = pair / k_len;
    const float *q = query + row * d, *k = key + (row / q_len * k_len + pair % k_len) * d;
    float sum = 0.0f;
    for (u32 j = threadIdx.x % WARP; j < d; j += WARP) sum += vector[j] * (1.0f - 2.0f / fmaf(q[j], k[j], 1.0f));
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) out[pair] = from_float<T>(sum);
}

// A block has one query: its gradient, and its part of the vector's.
template <typename T>
__device__ __forceinline__ void query_back(const float *query, const float *key, const float *vector, const T *g,
                                           T *of_query, float *of_vector, u32 q_len, u32 k_len, u32 d) {
    const u64 row = blockIdx.x;
    const float *keys = key + row / q_len * k_len * d;
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) {
        const float q = query[row * d + j], v = vector[j];
        float sum = 0.0f, own = 0.0f;
        for (u32 k = 0; k < k_len; k++) {
            const float by = to_float(g[row * k_len + k]);
            if (by == 0.0f) continue;
            const float r = 1.0f / fmaf(q, keys[u64(k) * d + j], 1.0f);
            sum += by * v * (4.0f * r * (1.0f - r));
            own += by * (1.0f - 2.0f * r);
        }
        of_query[row * d + j] = from_float<T>(sum);
        of_vector[row * d + j] = own;
    }
}

// A block has one key.
template <typename T>
__device__ __forceinline__ void key_back(const float *query, const float *key, const float *vector, const T *g, T *of_key,
                                         u32 q_len, u32 k_len, u32 d) {
    const u64 at = blockIdx.x, sentence = at / k_len;
    const float *queries = query + sentence * q_len * d;
    const T *gradients = g + sentence * q_len * k_len + at % k_len;
    for (u32 j = threadIdx.x; j < d; j += blockDim.x) {
        const float k = key[at * d + j], v = vector[j];
        float sum = 0.0f;
        for (u32 q = 0; q < q_len; q++) {
            const float by = to_float(gradients[u64(q) * k_len]);
            if (by == 0.0f) continue;
            const float r = 1.0f / fmaf(queries[u64(q) * d + j], k, 1.0f);
            sum += by * v * (4.0f * r * (1.0f - r));
        }
        of_key[at * d + j] = from_float<T>(sum);
    }
}

#define KERNEL(NAME, ...) extern "C" __global__ void __launch_bounds__(256) NAME(__VA_ARGS__)
#define EACH(DTYPE, T)                                                                                                 \
    KERNEL(exponentials_##DTYPE, const T *x, float *out, u64 len) { exponentials(x, out, len); }                       \
    KERNEL(scores_##DTYPE, const float *query, const float *key, const float *vector, T *out, u32 q_len, u32 k_len,    \
           u32 d, u64 pairs) {                                                                                         \
        scores(query, key, vector, out, q_len, k_len, d, pairs);                                                       \
    }                                                                                                                  \
    KERNEL(query_back_##DTYPE, const float *query, const float *key, const float *vector, const T *g, T *of_query,     \
           float *of_vector, u32 q_len, u32 k_len, u32 d) {                                                            \
        query_back(query, key, vector, g, of_query, of_vector, q_len, k_len, d);                                       \
    }                                                                                                                  \
    KERNEL(key_back_##DTYPE, const float *query, const float *key, const float *vector, const T *g, T *of_key,         \
           u32 q_len, u32 k_len, u32 d) {                                                                              \
        key_back(query, key, vector, g, of_key, q_len, k_len, d);                                                      \
    }

EACH(f32, float)
EACH(bf16, bf16)
