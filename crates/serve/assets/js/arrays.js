// Arrays of a trace: base64 of f32, or of f16 in a file that has to be small.

/** `{shape, base64}` or `{shape, f16}` as a Float32Array with its shape. */
export function readArray(packed) {
  const data = packed.f16 === undefined ? new Float32Array(bytes(packed.base64).buffer) : float16(packed.f16);
  return { shape: packed.shape, data };
}

function bytes(encoded) {
  const text = atob(encoded);
  const found = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index += 1) found[index] = text.charCodeAt(index);
  return found;
}

function float16(encoded) {
  return Float32Array.from(new Uint16Array(bytes(encoded).buffer), fromHalf);
}

/** IEEE 754 binary16: one sign, five exponent and ten fraction bits. */
export function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
