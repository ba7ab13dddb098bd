// What charts share: scales, ticks, and the colour of a cost against what is left.

const FREE = 0.02; // of the cost scale: no critic tells so little from nothing, as in cmcts.search.pruning

const scale = (from, to, start, end) => (x) => start + ((x - from) / (to - from || 1)) * (end - start);

function ticks(from, to, about = 5) {
  const rough = (to - from || 1) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => rough <= factor * power * 1.0001);
  const out = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + 1e-9 * step; k++) out.push(k * step);
  return out;
}

// 0: free; 1: all that is left; above 1: more than that. The worst of several constraints.
function burden(costs, left, scales) {
  let worst = 0;
  for (let m = 0; m < left.length; m++) {
    const slack = FREE * (scales ? scales[m] : 1);
    const share = left[m] > slack ? costs[m] / left[m] : costs[m] <= Math.max(left[m], 0) + slack ? 0 : Infinity;
    worst = Math.max(worst, share);
  }
  return worst;
}

const burdenClass = (share) => (share > 1.0001 ? "over" : share > 0.75 ? "near" : share > 0.25 ? "some" : "free");

// A colour from pale to strong; 0 to 1.
const heat = (share) =>
  `color-mix(in oklab, var(--heat-high) ${Math.round(100 * Math.max(0, Math.min(1, share)))}%, var(--heat-low))`;
// From one side of zero to the other; -1 to 1.
function diverging(share) {
  const strength = Math.round(100 * Math.min(1, Math.abs(share)));
  return `color-mix(in oklab, var(${share < 0 ? "--below" : "--above"}) ${strength}%, var(--heat-low))`;
}
