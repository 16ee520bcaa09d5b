// One position of a recurrent layer: all gates of all rows from the projected input and the product with h, the next
// state, and the backward pass. A thread has one component of one row.
//
// Positions are taken in the order of reading: step i is position i, or length − 1 − i backwards. Inputs and outputs are
// batch × length × width; what belongs to a step alone (gates, h before it) is step × batch × width, so that it is one
// matrix for products. A row takes part in positions below its length; otherwise its state stays as it is.

enum { RNN_TANH, RNN_RELU, GRU, LSTM };

struct Layer {
    u32 batch, length, d, cell, position;
    const u32 *lengths;
};

__device__ __forceinline__ float logistic(float x) { return 1.0f / (1.0f + expf(-x)); }

template <typename T>
__device__ __forceinline__ void forward(const Layer &a, const T *projected, const float *product, const float *bias,
                                        float *state, T *outputs, T *next, float *gates, float *extra) {
    const u64 index = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= u64(a.batch) * a.d) return;
    const u32 row = index / a.d, j = index % a.d, n_gates = a.cell == LSTM ? 4 : a.cell == GRU ? 3 : 1;
    const u32 n_states = a.cell == LSTM ? 2 : 1;
    const u64 at = u64(row) * a.length + a.position;
    float *h = state + u64(row) * n_states * a.d + j;
    const bool active = !a.lengths || a.position < a.lengths[row];
    if (!active) {
        outputs[at * a.d + j] = from_float<T>(0.0f);
        if (next) next[index] = from_float<T>(*h);
        return;
    }
    const T *x = projected + at * n_gates * a.d + j;
    float p[4], in[4];
    for (u32 gate = 0; gate < n_gates; gate++) {
        p[gate] = product[u64(row) * n_gates * a.d + gate * a.d + j] + (bias ? bias[gate * a.d + j] : 0.0f);
        in[gate] = to_float(x[u64(gate) * a.d]);
    }
    float own[4], y;
    if (a.cell == LSTM) {
        own[0] = logistic(in[0] + p[0]);
        own[1] = logistic(in[1] + p[1]);
        own[2] = tanhf(in[2] + p[2]);
        own[3] = logistic(in[3] + p[3]);
        const float before = h[a.d], c = own[1] * before + own[0] * own[2], squashed = tanhf(c);
        y = own[3] * squashed;
        h[a.d] = c;
        if (extra) {
            extra[2 * index] = before;
            extra[2 * index + 1] = squashed;
        }
    } else if (a.cell == GRU) {
        own[0] = logistic(in[0] + p[0]);
        own[1] = logistic(in[1] + p[1]);
        own[2] = tanhf(in[2] + own[0] * p[2]);
        y = own[2] + own[1] * (*h - own[2]);
        if (extra) {
            extra[2 * index] = p[2];
            extra[2 * index + 1] = *h;
        }
    } else {
        const float sum = in[0] + p[0];
        own[0] = y = a.cell == RNN_TANH ? tanhf(sum) : sum < 0.0f ? 0.0f : sum;
    }
    if (gates)
        for (u32 gate = 0; gate < n_gates; gate++) gates[n_gates * index + gate] = own[gate];
    *h = y;
    outputs[at * a.d + j] = from_float<T>(y);
    if (next) next[index] = from_float<T>(y);
}

// The gradients of h and c after the step become those before it, except for the product with W_hh, which is added to
// that of h afterwards.
template <typename T>
__device__ __forceinline__ void backward(const Layer &a, const T *of_outputs, const float *gates, const float *extra,
                                         float *of_h, float *of_c, T *of_input, T *of_hidden) {
    const u64 index = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= u64(a.batch) * a.d) return;
    const u32 row = index / a.d, j = index % a.d, n_gates = a.cell == LSTM ? 4 : a.cell == GRU ? 3 : 1;
    const u64 at = u64(row) * a.length + a.position;
    T *input = of_input + at * n_gates * a.d + j, *hidden = of_hidden + u64(row) * n_gates * a.d + j;
    const bool active = !a.lengths || a.position < a.lengths[row];
    if (!active) {
        for (u32 gate = 0; gate < n_gates; gate++)
            input[u64(gate) * a.d] = hidden[u64(gate) * a.d] = from_float<T>(0.0f);
        return;
    }
    const float g = of_h[index] + to_float(of_outputs[at * a.d + j]);
    const float *own = gates + n_gates * index;
    float of_x[4], of_p[4], rest = 0.0f;
    if (a.cell == LSTM) {
        const float before = extra[2 * index], s = extra[2 * index + 1];
        const float c = of_c[index] + g * own[3] * ((1.0f - s) * (1.0f + s));
        of_x[0] = c * own[2] * (own[0] * (1.0f - own[0]));
        of_x[1] = c * before * (own[1] * (1.0f - own[1]));
        of_x[2] = c * own[0] * ((1.0f - own[2]) * (1.0f + own[2]));
        of_x[3] = g * s * (own[3] * (1.0f - own[3]));
        of_c[index] = c * own[1];
        for (u32 gate = 0; gate < 4; gate++) of_p[gate] = of_x[gate];
    } else if (a.cell == GRU) {
        const float product = extra[2 * index], before = extra[2 * index + 1];
        of_x[2] = g * (1.0f - own[1]) * ((1.0f - own[2]) * (1.0f + own[2]));
        of_x[0] = of_x[2] * product * (own[0] * (1.0f - own[0]));
        of_x[1] = g * (before - own[2]) * (own[1] * (1.0f - own[1]));
        of_p[0] = of_x[0];
        of_p[1] = of_x[1];
        of_p[2] = of_x[2] * own[0];
        rest = g * own[1];
    } else {
        const float y = own[0];
        of_p[0] = of_x[0] = a.cell == RNN_TANH ? g * ((1.0f - y) * (1.0f + y)) : y > 0.0f ? g : 0.0f;
    }
    for (u32 gate = 0; gate < n_gates; gate++) {
        input[u64(gate) * a.d] = from_float<T>(of_x[gate]);
        hidden[u64(gate) * a.d] = from_float<T>(of_p[gate]);
    }
    of_h[index] = rest;
}

// The first state: h as the first operand of the products.
template <typename T> __device__ __forceinline__ void begin(const float *state, T *before, u32 batch, u32 d, u32 n_states) {
    const u64 index = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= u64(batch) * d) return;
    before[index] = from_float<T>(state[index / d * n_states * d + index % d]);
}

// Gradients of h and c apart, from or to those of a state. `state` is null for zeros.
extern "C" __global__ void __launch_bounds__(256) state_apart(const float *state, float *h, float *c, u32 batch, u32 d,
                                                              u32 n_states) {
    const u64 index = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= u64(batch) * d) return;
    const u64 at = index / d * n_states * d + index % d;
    h[index] = state ? state[at] : 0.0f;
    if (n_states == 2) c[index] = state ? state[at + d] : 0.0f;
}
extern "C" __global__ void __launch_bounds__(256) state_together(float *state, const float *h, const float *c, u32 batch,
                                                                 u32 d, u32 n_states) {
    const u64 index = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= u64(batch) * d) return;
    const u64 at = index / d * n_states * d + index % d;
    state[at] = h[index];
    if (n_states == 2) state[at + d] = c[index];
}

#define KERNEL(NAME, ...) extern "C" __global__ void __launch_bounds__(256) NAME(__VA_ARGS__)
#define EACH(DTYPE, T)                                                                                                 \
    KERNEL(recurrent_##DTYPE, u32 batch, u32 length, u32 d, u32 cell, u32 position, const u32 *lengths,                \
           const T *projected, const float *product, const float *bias, float *state, T *outputs, T *next,             \
           float *gates, float *extra) {                                                                               \
        forward<T>(Layer{batch, length, d, cell, position, lengths}, projected, product, bias, state, outputs, next,   \
                   gates, extra);                                                                                      \
    }                                                                                                                  \
    KERNEL(recurrent_back_##DTYPE, u32 batch, u32 length, u32 d, u32 cell, u32 position, const u32 *lengths,           \
           const T *of_outputs, const float *gates, const float *extra, float *of_h, float *of_c, T *of_input,         \
           T *of_hidden) {                                                                                             \
        backward<T>(Layer{batch, length, d, cell, position, lengths}, of_outputs, gates, extra, of_h, of_c, of_input,  \
                    of_hidden);                                                                                        \
    }                                                                                                                  \
    KERNEL(begin_##DTYPE, const float *state, T *before, u32 batch, u32 d, u32 n_states) {                             \
        begin(state, before, batch, d, n_states);                                                                      \
    }

EACH(f32, float)
EACH(bf16, bf16)
