// Numbers as people read them.

// As Python's format(x, ".4g").
function general(x, digits = 4) {
  if (x === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(Number(x.toPrecision(digits)))));
  if (exponent < -4 || exponent >= digits)
    return x
      .toExponential(digits - 1)
      .replace(/\.?0+e/, "e")
      .replace(/e(.)(\d)$/, "e$10$2");
  const fixed = x.toFixed(Math.max(0, digits - 1 - exponent));
  return fixed.includes(".") ? fixed.replace(/\.?0+$/, "") : fixed;
}

// No "-0.00": what rounds to nothing has no sign.
const fixed = (x, digits = 3) =>
  x === null || x === undefined || Number.isNaN(x) ? "–" : x.toFixed(digits).replace(/^-(0\.?0*)$/, "$1");
const count = (n) => n.toLocaleString("en-GB");
const percent = (share) => `${share >= 0.0995 || share === 0 ? (100 * share).toFixed(0) : (100 * share).toFixed(1)} %`;
const stateText = (numbers) => `(${Array.from(numbers, (x) => general(x, 3)).join(", ")})`;
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
