// Whole arrays: out += x between types, type conversion; and a delay, so that a queue fills behind it.

template <typename To, typename From> __device__ void add_to(To *out, const From *x, u64 len) {
    const u64 step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < len; i += step)
        out[i] = from_float<To>(to_float(out[i]) + to_float(x[i]));
}

template <typename To, typename From> __device__ void convert(To *out, const From *x, u64 len) {
    const u64 step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < len; i += step) out[i] = from_float<To>(to_float(x[i]));
}

// out = a + b, eight values at a time; `len` is a multiple of eight and the addresses are aligned.
template <typename T> __device__ void sum_of(T *out, const T *a, const T *b, u64 eights) {
    const u64 step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < eights; i += step) {
        Eight x = load8(a + 8 * i);
        const Eight y = load8(b + 8 * i);
#pragma unroll
        for (int j = 0; j < 8; j++) x.x[j] += y.x[j];
        store8(out + 8 * i, x);
    }
}

// Blocks the queue for some nanoseconds.
extern "C" __global__ void wait(u64 nanoseconds) {
    u64 begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < nanoseconds);
}

#define KERNEL extern "C" __global__ void
KERNEL add_to_f32_f32(float *out, const float *x, u64 len) { add_to(out, x, len); }
KERNEL add_to_f32_bf16(float *out, const bf16 *x, u64 len) { add_to(out, x, len); }
KERNEL add_to_bf16_bf16(bf16 *out, const bf16 *x, u64 len) { add_to(out, x, len); }
KERNEL add_to_bf16_f32(bf16 *out, const float *x, u64 len) { add_to(out, x, len); }
KERNEL convert_f32_bf16(float *out, const bf16 *x, u64 len) { convert(out, x, len); }
KERNEL convert_bf16_f32(bf16 *out, const float *x, u64 len) { convert(out, x, len); }
KERNEL sum_of_f32(float *out, const float *a, const float *b, u64 eights) { sum_of(out, a, b, eights); }
KERNEL sum_of_bf16(bf16 *out, const bf16 *a, const bf16 *b, u64 eights) { sum_of(out, a, b, eights); }
