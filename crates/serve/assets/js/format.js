// Formats numbers.

/** Fixed decimals, with a real minus sign and no −0. */
export function fixed(number, decimals = 2) {
  if (number === null || number === undefined) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : Number.isNaN(number) ? "–" : "−∞";
  const text = Math.abs(number).toFixed(decimals);
  return number < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** A probability: `93.1 %`, `0.02 %`, `< 0.01 %`. */
export function percent(probability) {
  const share = probability * 100;
  if (share >= 10) return `${share.toFixed(1)} %`;
  if (share >= 0.01) return `${share.toFixed(2)} %`;
  return share === 0 ? "0 %" : "< 0.01 %";
}

/** `1234567` as `1,234,567`. */
export function grouped(number) {
  return Math.round(number)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `1.75 · 10¹¹` from a million on. */
export function large(number) {
  if (number < 1e6) return grouped(number);
  const exponent = Math.floor(Math.log10(number));
  const digits = [...String(exponent)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("");
  return `${(number / 10 ** exponent).toFixed(2)} · 10${digits}`;
}

/** Bytes with a unit; a thousand bytes are a kB. */
export function bytesText(number) {
  const units = [
    [1e15, "PB"],
    [1e12, "TB"],
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ];
  const found = units.find(([unit]) => number >= unit);
  return found ? `${(number / found[0]).toFixed(1)} ${found[1]}` : `${Math.round(number)} bytes`;
}

/** The English name of a language code, or the code itself. */
export function languageName(code) {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}
