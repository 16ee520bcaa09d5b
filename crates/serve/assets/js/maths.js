// Formulas that views and lessons compute in the browser.

/** base^x_i / Σ base^x_j; −∞ gets 0. */
export function softmax(scores, base = Math.E) {
  const largest = Math.max(...scores);
  if (largest === -Infinity) return scores.map(() => 0);
  const powers = scores.map((score) => base ** (score - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

export function dot(a, b) {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += a[index] * b[index];
  return sum;
}

/** Rows of a times columns of b. */
export function matmul(a, b) {
  return a.map((row) =>
    b[0].map((_, column) =>
      dot(
        row,
        b.map((other) => other[column]),
      ),
    ),
  );
}

export function transpose(a) {
  return a[0].map((_, column) => a.map((row) => row[column]));
}

/** Σ w_i·v_i. */
export function mix(weights, vectors) {
  return vectors[0].map((_, index) =>
    dot(
      weights,
      vectors.map((vector) => vector[index]),
    ),
  );
}

export function sum(numbers) {
  return numbers.reduce((a, b) => a + b, 0);
}

export function cosine(a, b) {
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

/** An entry of a sinusoidal position vector. `layout`: interleaved, concatenated, or tensor2tensor with its own divisor. */
export function sinusoid(position, index, size, layout) {
  const half = size / 2;
  const pair = layout === "interleaved" ? Math.floor(index / 2) : index % half;
  const isSine = layout === "interleaved" ? index % 2 === 0 : index < half;
  const exponent = layout === "tensor2tensor" ? pair / (half - 1) : pair / half;
  const angle = position / 10000 ** exponent;
  return isSine ? Math.sin(angle) : Math.cos(angle);
}
