// Generating and copying mixed: the cross-entropy of P(w) = p·softmax(z)_w + (1 − p)·Σ a_i over the source positions i of w,
// and the coverage loss Σ min(a, earlier a). A block has a target position, and a thread a source position of a sentence.

// What the backward pass needs of a row.
enum { LOGSUMEXP, GENERATED, COPIED, STATISTICS };

__device__ __forceinline__ float log_sigmoid(float x) { return fminf(x, 0.0f) - log1pf(expf(-fabsf(x))); }

// Sum of the weights of an id, in the order of the source, in every thread.
template <typename T>
__device__ __forceinline__ float copied_weight(const T *weights, const u32 *sources, u32 source, u32 id) {
    float sum = 0.0f;
    for (u32 i = 0; i < source; i++)
        if (sources[i] == id) sum += to_float(weights[i]);
    return sum;
}

template <typename T>
__device__ __forceinline__ void forward(const T *logits, const T *weights, const T *gates, const u32 *sources,
                                        const u32 *expected, float *losses, float *statistics, u32 width, u32 source,
                                        u32 per_sentence, u32 has_ignored, u32 ignored, float smoothing, float least) {
    __shared__ float scratch[WARP];
    const u32 row = blockIdx.x, id = expected[row];
    const T *own = logits + u64(row) * width;
    float *saved = statistics + u64(row) * STATISTICS;
    if (has_ignored && id == ignored) {
        if (threadIdx.x == 0) losses[row] = 0.0f, saved[LOGSUMEXP] = INFINITY_F;
        return;
    }
    float largest = -INFINITY_F, sum = 0.0f, total = 0.0f;
    for (u32 at = threadIdx.x; at < width; at += blockDim.x) largest = fmaxf(largest, to_float(own[at]));
    largest = block_max(largest, scratch);
    const float shift = largest == -INFINITY_F ? 0.0f : largest;
    for (u32 at = threadIdx.x; at < width; at += blockDim.x) {
        const float logit = to_float(own[at]);
        sum += expf(logit - shift), total += logit;
    }
    sum = block_sum(sum, scratch), total = block_sum(total, scratch);
    if (threadIdx.x != 0) return;
    const float logsumexp = largest + logf(sum), gate = to_float(gates[row]);
    const float copied = copied_weight(weights + u64(row) * source, sources + u64(row / per_sentence) * source, source, id);
    const bool known = id < width;
    const float generating = known ? log_sigmoid(gate) + to_float(own[id]) - logsumexp : -INFINITY_F;
    const float copying = copied > 0.0f || !known ? log_sigmoid(-gate) + logf(fmaxf(copied, least)) : -INFINITY_F;
    const float larger = fmaxf(generating, copying), smaller = fminf(generating, copying);
    const float log_probability = smaller == -INFINITY_F ? larger : larger + log1pf(expf(smaller - larger));
    saved[LOGSUMEXP] = logsumexp;
    saved[GENERATED] = known ? expf(generating - log_probability) : 0.0f;
    saved[COPIED] = copied;
    losses[row] = smoothing * (logsumexp - total / width) - (1.0f - smoothing) * log_probability;
}

template <typename T>
__device__ __forceinline__ void backward(const float *gradient, const T *logits, const T *gates, const u32 *sources,
                                         const u32 *expected, const float *statistics, const u32 *count, T *of_logits,
                                         T *of_weights, T *of_gates, u32 width, u32 source, u32 per_sentence,
                                         float smoothing, float least) {
    const u32 row = blockIdx.x, id = expected[row];
    const float *saved = statistics + u64(row) * STATISTICS;
    const bool is_ignored = saved[LOGSUMEXP] == INFINITY_F;
    const float weight = *gradient / float(*count ? *count : 1), own = weight * (1.0f - smoothing);
    const float generated = is_ignored ? 0.0f : saved[GENERATED], logsumexp = saved[LOGSUMEXP];
    const float factor = own * generated + weight * smoothing, floor = weight * smoothing / width;
    for (u32 at = threadIdx.x; at < width; at += blockDim.x) {
        const u64 index = u64(row) * width + at;
        float slope = is_ignored ? 0.0f : factor * expf(to_float(logits[index]) - logsumexp) - floor;
        if (at == id && !is_ignored) slope -= own * generated;
        of_logits[index] = from_float<T>(slope);
    }
    const float slope = is_ignored ? 0.0f : -own * (1.0f - generated) / fmaxf(saved[COPIED], least);
    const u32 *read = sources + u64(row / per_sentence) * source;
    for (u32 i = threadIdx.x; i < source; i += blockDim.x)
        of_weights[u64(row) * source + i] = from_float<T>(read[i] == id ? slope : 0.0f);
    if (threadIdx.x == 0) {
        const float p = 1.0f / (1.0f + expf(-to_float(gates[row])));
        of_gates[row] = from_float<T>(is_ignored ? 0.0f : own * (p - generated));
    }
}

// The sum of a source position over the target, and what earlier positions had.
template <typename T>
__device__ __forceinline__ void cover(const T *weights, const u32 *expected, float *sums, float *covered, u32 batch,
                                      u32 target, u32 source, u32 has_ignored, u32 ignored) {
    const u32 column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= batch * source) return;
    const u32 sentence = column / source, i = column % source;
    float sum = 0.0f, before = 0.0f;
    for (u32 t = 0; t < target; t++) {
        const u64 index = (u64(sentence) * target + t) * source + i;
        const float weight = to_float(weights[index]);
        covered[index] = before;
        if (!(has_ignored && expected[sentence * target + t] == ignored)) sum += fminf(weight, before);
        before += weight;
    }
    sums[column] = sum;
}

template <typename T>
__device__ __forceinline__ void cover_back(const float *gradient, const T *weights, const u32 *expected,
                                           const float *covered, const u32 *count, T *of_weights, u32 batch, u32 target,
                                           u32 source, u32 has_ignored, u32 ignored) {
    const u32 column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= batch * source) return;
    const u32 sentence = column / source, i = column % source;
    const float weight = *gradient / float(*count ? *count : 1);
    float later = 0.0f;
    for (u32 t = target; t-- > 0;) {
        const u64 index = (u64(sentence) * target + t) * source + i;
        const bool counts = !(has_ignored && expected[sentence * target + t] == ignored);
        const bool own = counts && to_float(weights[index]) < covered[index];
        of_weights[index] = from_float<T>(later + (own ? weight : 0.0f));
        if (counts && !own) later += weight;
    }
}

#define KERNEL(NAME, ...) extern "C" __global__ void __launch_bounds__(256) NAME(__VA_ARGS__)
#define EACH(DTYPE, T)                                                                                                 \
    KERNEL(copying_##DTYPE, const T *logits, const T *weights, const T *gates, const u32 *sources,                     \
           const u32 *expected, float *losses, float *statistics, u32 width, u32 source, u32 per_sentence,             \
           u32 has_ignored, u32 ignored, float smoothing, float least) {                                               \
        forward(logits, weights, gates, sources, expected, losses, statistics, width, source, per_sentence,            \
                has_ignored, ignored, smoothing, least);                                                               \
    }                                                                                                                  \
    KERNEL(copying_back_##DTYPE, const float *gradient, const T *logits, const T *gates, const u32 *sources,           \
           const u32 *expected, const float *statistics, const u32 *count, T *of_logits, T *of_weights, T *of_gates,   \
           u32 width, u32 source, u32 per_sentence, float smoothing, float least) {                                    \
        backward(gradient, logits, gates, sources, expected, statistics, count, of_logits, of_weights, of_gates,       \
                 width, source, per_sentence, smoothing, least);                                                       \
    }                                                                                                                  \
    KERNEL(coverage_##DTYPE, const T *weights, const u32 *expected, float *sums, float *covered, u32 batch,            \
           u32 target, u32 source, u32 has_ignored, u32 ignored) {                                                     \
        cover(weights, expected, sums, covered, batch, target, source, has_ignored, ignored);                          \
    }                                                                                                                  \
    KERNEL(coverage_back_##DTYPE, const float *gradient, const T *weights, const u32 *expected,                        \
           const float *covered, const u32 *count, T *of_weights, u32 batch, u32 target, u32 source,                   \
           u32 has_ignored, u32 ignored) {                                                                             \
        cover_back(gradient, weights, expected, covered, count, of_weights, batch, target, source, has_ignored,        \
                   ignored);                                                                                           \
    }

EACH(f32, float)
EACH(bf16, bf16)
