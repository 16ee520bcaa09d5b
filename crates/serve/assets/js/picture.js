// The picture that an image classifier sees, and attention drawn on it: what is attended to stays bright, the rest is dark. The weight
// of a patch is relative to the largest one and interpolated between the centres of patches, as in the pictures of polyhead inspect.

import { element } from "./dom.js";

/** Brightness of a patch without weight. */
const DARK = 0.12;

/** The picture of a trace as `ImageData`. */
export async function readPicture(json) {
  const text = atob(json.picture);
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const blob = new Blob([bytes], { type: "image/png" });
  // From bytes, not from an address: the page may load nothing.
  const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const canvas = element("canvas", { width: bitmap.width, height: bitmap.height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  return context.getImageData(0, 0, bitmap.width, bitmap.height);
}

/** What the tokens of `rows` attend to on average, for each patch. */
export function ofPatches(json, matrix, rows) {
  const [down, across] = json.grid;
  const sums = new Float32Array(down * across);
  for (const row of rows) {
    const weights = matrix.row(row);
    for (let patch = 0; patch < sums.length; patch += 1) sums[patch] += weights[json.learned_tokens + patch] / rows.length;
  }
  return sums;
}

/** The rows that the class scores are computed from: the class token, or without one all patches. */
export function classRows(json) {
  return json.learned_tokens > 0 ? [0] : Array.from({ length: json.grid[0] * json.grid[1] }, (_, patch) => patch);
}

/** Draws the picture on a canvas, darkened where `weights` are small; null darkens nothing. */
export function paintPicture(canvas, picture, { grid, weights = null }) {
  const { width, height } = picture;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  if (!weights) {
    context.putImageData(picture, 0, 0);
    return;
  }
  const own = new ImageData(new Uint8ClampedArray(picture.data), width, height);
  const most = weights.reduce((largest, weight) => Math.max(largest, weight), 1e-30);
  const patch = patchSide(picture, grid);
  const [down, across] = grid;
  for (let y = 0; y < height; y += 1) {
    const [above, below, part] = between(y, patch, down);
    for (let x = 0; x < width; x += 1) {
      const [left, right, share] = between(x, patch, across);
      const mix = (row) => weights[row * across + left] * (1 - share) + weights[row * across + right] * share;
      // The right and bottom edge may lie outside all patches.
      const isInside = y < down * patch && x < across * patch;
      const weight = isInside ? (mix(above) * (1 - part) + mix(below) * part) / most : 0;
      const bright = DARK + (1 - DARK) * Math.min(Math.max(weight, 0), 1);
      const at = 4 * (y * width + x);
      for (let channel = 0; channel < 3; channel += 1) own.data[at + channel] *= bright;
    }
  }
  context.putImageData(own, 0, 0);
}

/** The side of a patch in pixels of the picture. */
export function patchSide({ width, height }, [down, across]) {
  return Math.min(Math.floor(height / down), Math.floor(width / across));
}

/** The two patches whose centres are beside a pixel, and the share of the second. */
function between(pixel, patch, count) {
  const place = Math.min(Math.max((pixel + 0.5) / patch - 0.5, 0), count - 1);
  const first = Math.floor(place);
  return [first, Math.min(first + 1, count - 1), place - first];
}
