// What a group of 0/1 rewards pushes in the mean, over the true gradient, and the share of groups with equal rewards.
export function compute({ size, rate }) {
  const wasted = (p) => p ** size + (1 - p) ** size;
  const deviation = (p) => {
    let chance = (1 - p) ** size, mean = 0; // of k right ones, and of the standard deviation
    for (let k = 1; k < size; k++) {
      chance *= ((size - k + 1) / k) * (p / (1 - p));
      mean += chance * Math.sqrt(k * (size - k)) / size;
    }
    return mean;
  };
  const scale = (p) => deviation(p) / (p * (1 - p));
  const only = (size - 1) / size;
  const xs = Array.from({ length: 99 }, (_, i) => (i + 1) / 100);
  return {
    text: `At success rate ${rate}, ${(100 * wasted(rate)).toPrecision(2)}% of the groups of ${size} are all right or all wrong. ` +
      `In the mean GRPO pushes ${scale(rate).toFixed(2)} times as hard as the true gradient; with the mean only it is ${only.toFixed(2)}.`,
    panels: [
      { curves: [{ label: "GRPO: mean and std", xs, ys: xs.map(scale) }, { label: "mean only", xs, ys: xs.map(() => only) }],
        points: [{ x: rate, y: scale(rate), curve: 0 }, { x: rate, y: only, curve: 1 }] },
      { curves: [{ label: `G = ${size}`, xs, ys: xs.map(wasted) }], points: [{ x: rate, y: wasted(rate), curve: 0 }] },
    ],
  };
}
