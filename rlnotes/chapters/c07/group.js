// Group advantages (91) of 0/1 rewards, and the share of groups that teach nothing.
export function compute({ size, rate }) {
  const counts = Array.from({ length: size - 1 }, (_, i) => i + 1);
  const deviation = (k) => Math.sqrt((k / size) * (1 - k / size) + 1e-8);
  const wasted = (p) => p ** size + (1 - p) ** size;
  const xs = Array.from({ length: 99 }, (_, i) => (i + 1) / 100);
  const k = Math.min(size - 1, Math.max(1, Math.round(size * rate)));
  const up = (1 - k / size) / deviation(k), down = (-k / size) / deviation(k);
  const share = counts.map((c) => c / size);
  return {
    text: `With ${k} right of ${size}, a right response has advantage ${up.toFixed(2)}, a wrong one ${down.toFixed(2)}. ` +
      `At success rate ${rate}, ${(100 * wasted(rate)).toPrecision(2)}% of the groups are all right or all wrong, and teach nothing.`,
    panels: [
      { curves: [{ label: "right response", xs: share, ys: counts.map((c) => (1 - c / size) / deviation(c)) },
                 { label: "wrong response", xs: share, ys: counts.map((c) => (-c / size) / deviation(c)) }],
        points: [{ x: k / size, y: up, curve: 0 }, { x: k / size, y: down, curve: 1 }] },
      { curves: [{ label: `G = ${size}`, xs, ys: xs.map(wasted) }], points: [{ x: rate, y: wasted(rate), curve: 0 }] },
    ],
  };
}
