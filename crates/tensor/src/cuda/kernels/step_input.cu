// Input of a decoding step: y[r] = scale · E(token[r]) + P(n), with P(n) the vector of the row's newest position, which is
// the newest line minus the row's start; both are read from memory: one recorded graph serves all steps. A block does one
// row.

template <typename T>
__device__ __forceinline__ void step_input(const u32 *tokens, const T *table, const float *positions, const u32 *place,
                                           const u32 *starts, T *y, u32 width, float scale) {
    const T *from = table + u64(tokens[blockIdx.x]) * width;
    const float *position = positions ? positions + u64(place[0] - starts[blockIdx.x]) * width : nullptr;
    T *to = y + u64(blockIdx.x) * width;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
        to[i] = from_float<T>(to_float(from[i]) * scale + (position ? position[i] : 0.0f));
    }
}

extern "C" __global__ void step_input_f32(const u32 *tokens, const float *table, const float *positions, const u32 *place,
                                          const u32 *starts, float *y, u32 width, float scale) {
    step_input(tokens, table, positions, place, starts, y, width, scale);
}
extern "C" __global__ void step_input_bf16(const u32 *tokens, const bf16 *table, const float *positions, const u32 *place,
                                           const u32 *starts, bf16 *y, u32 width, float scale) {
    step_input(tokens, table, positions, place, starts, y, width, scale);
}
