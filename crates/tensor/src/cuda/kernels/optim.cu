// One optimiser step over all parameters, which are in one buffer: gradient norm, clipping, Adam with decoupled weight
// decay, and a moving average.
//
// m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², θ ← θ·decay − rate·m/(√v·root + ε); g is clipped to the largest norm
// first. Values that change from step to step are in memory. If the norm is not finite, nothing changes.

// Values of a step: [rate = η/(1 − β₁ᵗ), decay = 1 − ηλ, root = 1/√(1 − β₂ᵗ), decay of the moving average].
enum { RATE, DECAY, ROOT, AVERAGE };

#define PARTS_BLOCK 512

// partials[blockIdx.x]: the sum of squares of a part, in f64.
extern "C" __global__ void __launch_bounds__(PARTS_BLOCK)
    squares(const float4 *gradients, u64 fours, double *partials) {
    __shared__ double sums[PARTS_BLOCK];
    const u64 step = u64(gridDim.x) * blockDim.x;
    double sum = 0;
#pragma unroll 4
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < fours; i += step) {
        const float4 g = gradients[i];
        sum += g.x * g.x + g.y * g.y + g.z * g.z + g.w * g.w;
    }
    sums[threadIdx.x] = sum;
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) partials[blockIdx.x] = sums[0];
}

// The norm from its partial sums, the same in every block.
__device__ __forceinline__ float norm_of(const double *partials, u32 parts) {
    __shared__ double sums[256];
    double sum = 0;
    for (u32 i = threadIdx.x; i < parts; i += blockDim.x) sum += partials[i];
    sums[threadIdx.x] = sum;
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    return float(sqrt(sums[0]));
}

__device__ __forceinline__ float adam_one(float value, float g, float &m, float &v, float4 fixed, const float *numbers) {
    m = fixed.x * m + (1.0f - fixed.x) * g;
    v = fixed.y * v + (1.0f - fixed.y) * g * g;
    return value * numbers[DECAY] - numbers[RATE] * m / (sqrtf(v) * numbers[ROOT] + fixed.z);
}

// `fours`: number of values / 4 of everything; twin (the bf16 copy) and average may be null. Blocks of 256.
extern "C" __global__ void __launch_bounds__(256)
    adam(float4 *values, uint2 *twin, const float4 *gradients, float4 *ms, float4 *vs, float4 *average, u64 fours,
         const double *partials, u32 parts, float *norm, const float *step_numbers, float beta1, float beta2,
         float epsilon, float largest_norm) {
    const float length = norm_of(partials, parts);
    if (blockIdx.x == 0 && threadIdx.x == 0) *norm = length;
    if (!(length < INFINITY_F)) return;
    const float factor = length > largest_norm ? largest_norm / length : 1.0f;
    const float numbers[4] = {step_numbers[0], step_numbers[1], step_numbers[2], step_numbers[3]};
    const float4 fixed = make_float4(beta1, beta2, epsilon, 0.0f);
    const u64 step = u64(gridDim.x) * blockDim.x;
#pragma unroll 2
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < fours; i += step) {
        const float4 g = gradients[i];
        float4 m = ms[i], v = vs[i], value = values[i];
        value.x = adam_one(value.x, g.x * factor, m.x, v.x, fixed, numbers);
        value.y = adam_one(value.y, g.y * factor, m.y, v.y, fixed, numbers);
        value.z = adam_one(value.z, g.z * factor, m.z, v.z, fixed, numbers);
        value.w = adam_one(value.w, g.w * factor, m.w, v.w, fixed, numbers);
        ms[i] = m;
        vs[i] = v;
        values[i] = value;
        if (twin) twin[i] = make_uint2(pack_bf16(value.x, value.y), pack_bf16(value.z, value.w));
        if (average) {
            const float stays = numbers[AVERAGE];
            float4 a = average[i];
            a.x = stays * a.x + (1.0f - stays) * value.x;
            a.y = stays * a.y + (1.0f - stays) * value.y;
            a.z = stays * a.z + (1.0f - stays) * value.z;
            a.w = stays * a.w + (1.0f - stays) * value.w;
            average[i] = a;
        }
    }
}
