// The k best of each row of logits by log-probability x − max − ln Σ e^(x − max), the smaller id first among equals.
//
// A block does one row. The k-th best of its threads' maxima is a threshold that at least k values reach, and few
// others: those values are gathered and ranked by counting. If too many are gathered (rows of equal values), the k best
// are found one after the other. Tokens at −∞ and rows with NaN give no candidate: id 0 at −∞.
//
// out, per row: k ids, k log-probabilities (as bits), the logarithm of the sum. k ≤ 64.

#define THREADS 512
#define GATHERED 1024
#define UNROLL 8

struct Best {
    float score;
    u32 id;
};

__device__ __forceinline__ bool is_better(Best a, Best b) { return a.score > b.score || (a.score == b.score && a.id < b.id); }

// The best of a block.
__device__ __forceinline__ Best block_best(Best own, Best *scratch) {
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) {
        const Best other = {__shfl_xor_sync(ALL_LANES, own.score, step), __shfl_xor_sync(ALL_LANES, own.id, step)};
        if (is_better(other, own)) own = other;
    }
    __syncthreads();
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = own;
    __syncthreads();
    Best best = scratch[0];
    for (u32 warp = 1; warp < THREADS / WARP; warp++) {
        if (is_better(scratch[warp], best)) best = scratch[warp];
    }
    return best;
}

template <typename T>
__device__ __forceinline__ void best_tokens(const T *logits, u32 *out, u32 width, u32 k) {
    __shared__ float maxima[THREADS];
    __shared__ Best gathered[GATHERED];
    __shared__ float scratch[WARP];
    __shared__ u32 n_gathered;
    __shared__ float bar;
    const T *row = logits + u64(blockIdx.x) * width;
    u32 *ids = out + u64(blockIdx.x) * (2 * k + 1), *scores = ids + k;
    if (threadIdx.x < k) {
        ids[threadIdx.x] = 0;
        scores[threadIdx.x] = __float_as_uint(-INFINITY_F);
    }
    if (threadIdx.x == 0) {
        n_gathered = 0;
        bar = -INFINITY_F;
    }

    // One pass: each thread's largest value and the sum of exponentials relative to it.
    float largest = -INFINITY_F, sum = 0.0f;
    for (u32 start = threadIdx.x; start < width; start += UNROLL * THREADS) {
        float x[UNROLL], above = largest;
#pragma unroll
        for (u32 j = 0; j < UNROLL; j++) {
            const u32 at = start + j * THREADS;
            x[j] = at < width ? to_float(row[at]) : -INFINITY_F;
            above = fmaxf(above, x[j]);
        }
        // Only −∞ so far: nothing to add.
        if (above == -INFINITY_F) continue;
        sum *= __expf(largest - above);
#pragma unroll
        for (u32 j = 0; j < UNROLL; j++) sum += __expf(x[j] - above);
        largest = above;
    }
    maxima[threadIdx.x] = largest;
    const float highest = block_max(largest, scratch);
    const float shift = highest == -INFINITY_F ? 0.0f : highest;
    const float total = block_sum(largest == -INFINITY_F ? sum : sum * __expf(largest - shift), scratch);
    const float logarithm = total == 0.0f ? 0.0f : logf(total);
    if (threadIdx.x == 0) scores[k] = __float_as_uint(shift + logarithm);

    // The threshold: the k-th best of the maxima.
    u32 rank = 0;
    for (u32 other = 0; other < THREADS; other++) {
        rank += maxima[other] > largest || (maxima[other] == largest && other < threadIdx.x);
    }
    if (rank == k - 1) bar = largest - shift - logarithm;
    __syncthreads();

#pragma unroll 8
    for (u32 i = threadIdx.x; i < width; i += THREADS) {
        const float score = to_float(row[i]) - shift - logarithm;
        if (score >= bar && score > -INFINITY_F) {
            const u32 place = atomicAdd(&n_gathered, 1u);
            if (place < GATHERED) gathered[place] = Best{score, i};
        }
    }
    __syncthreads();
    const u32 n = n_gathered;
    if (n <= GATHERED) {
        for (u32 own = threadIdx.x; own < n; own += THREADS) {
            u32 better = 0;
            for (u32 other = 0; other < n && better < k; other++) better += is_better(gathered[other], gathered[own]);
            if (better < k) {
                ids[better] = gathered[own].id;
                scores[better] = __float_as_uint(gathered[own].score);
            }
        }
        return;
    }
    Best last = {INFINITY_F, 0};
    for (u32 found = 0; found < k; found++) {
        Best own = {-INFINITY_F, ~0u};
        for (u32 i = threadIdx.x; i < width; i += THREADS) {
            const Best here = {to_float(row[i]) - shift - logarithm, i};
            if (is_better(last, here) && is_better(here, own)) own = here;
        }
        last = block_best(own, gathered);
        if (threadIdx.x == 0 && last.score > -INFINITY_F) {
            ids[found] = last.id;
            scores[found] = __float_as_uint(last.score);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) best_tokens_f32(const float *logits, u32 *out, u32 width, u32 k) {
    best_tokens(logits, out, width, k);
}
extern "C" __global__ void __launch_bounds__(THREADS) best_tokens_bf16(const bf16 *logits, u32 *out, u32 width, u32 k) {
    best_tokens(logits, out, width, k);
}
