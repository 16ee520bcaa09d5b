// Computed colours: the ramp of heat-maps and the colours of heads. Lightness alone encodes a weight, so the ramp reads the
// same for every kind of colour vision.

const LIGHT = [
  [255, 255, 255],
  [205, 226, 233],
  [128, 184, 205],
  [43, 122, 156],
  [9, 55, 82],
];
const DARK = [
  [20, 23, 26],
  [22, 56, 71],
  [31, 108, 135],
  [98, 182, 202],
  [233, 246, 244],
];
const HUES = 8;
const DASHES = [[], [9, 3], [3, 3], [9, 3, 3, 3]];

/** True in the dark theme. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The colour of a share from 0 to 1 as [r, g, b]. */
export function ramp(share, dark = isDark()) {
  const stops = dark ? DARK : LIGHT;
  const position = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(position), stops.length - 2);
  const part = position - low;
  return stops[low].map((from, channel) => Math.round(from + (stops[low + 1][channel] - from) * part));
}

/** The same as CSS text, and a text colour that can be read on it. */
export function shade(share, dark = isDark()) {
  const [r, g, b] = ramp(share, dark);
  // Above this luminance black has the higher contrast (WCAG 2).
  const [red, green, blue] = [r, g, b].map((part) => linear(part / 255));
  const isBright = 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179;
  return { background: `rgb(${r} ${g} ${b})`, ink: isBright ? "#000000" : "#ffffff" };
}

function linear(part) {
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}

/** The name of a head's colour in the style sheet. */
export function headVariable(head) {
  return `var(--head-${head % HUES})`;
}

/** The dashes of a head's lines, so that colour is never the only difference; a second round of colours has other dashes. */
export function headDash(head) {
  return DASHES[(head + Math.floor(head / HUES)) % DASHES.length];
}

/** A colour of the style sheet, such as `var(--ink)`, as the canvas takes it. */
export function resolved(colour) {
  const probe = document.createElement("i");
  probe.style.color = colour;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** A colour for a signed number: blue-green above zero, orange below. */
export function signed(number, largest, dark = isDark()) {
  const share = largest > 0 ? Math.min(Math.abs(number) / largest, 1) : 0;
  const paper = dark ? [27, 31, 35] : [255, 255, 255];
  const end = number >= 0 ? (dark ? [98, 190, 214] : [6, 88, 122]) : dark ? [240, 160, 84] : [178, 82, 8];
  const mixed = paper.map((from, channel) => Math.round(from + (end[channel] - from) * share));
  return `rgb(${mixed.join(" ")})`;
}
