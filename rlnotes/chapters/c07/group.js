// The loss of a group of 0/1 rewards, its push on the log-odds of a right answer, and the mean push over groups.
export function compute({ size, rate }) {
  const wasted = (p) => p ** size + (1 - p) ** size;
  const rights = Array.from({ length: size + 1 }, (_, k) => k);
  const chances = (p) => {
    const found = [(1 - p) ** size]; // of k right ones
    for (let k = 1; k <= size; k++) found.push(found[k - 1] * ((size - k + 1) / k) * (p / (1 - p)));
    return found;
  };
  const push = (k) => Math.sqrt(k * (size - k)) / size; // the deviation of the rewards
  const mean = (p) => chances(p).reduce((sum, chance, k) => sum + chance * push(k), 0);
  const xs = Array.from({ length: 99 }, (_, i) => (i + 1) / 100), shares = rights.map((k) => k / size);
  const own = chances(rate), k = Math.floor(rate * size + 0.5), truth = rate * (1 - rate);
  return {
    text: `A group with ${k} of ${size} right: loss 0, push ${push(k).toFixed(2)}. At success rate ${rate}, ` +
      `${(100 * wasted(rate)).toPrecision(2)}% of the groups are all right or all wrong and push nothing. ` +
      `In the mean the push is ${mean(rate).toPrecision(2)}, ${(mean(rate) / truth).toFixed(2)} times that of the true gradient.`,
    panels: [
      { curves: [{ label: "loss", xs: shares, ys: rights.map(() => 0) },
          { label: "push on the log-odds", xs: shares, ys: rights.map(push) },
          { label: "how often such a group comes", xs: shares, ys: own }],
        points: [{ x: k / size, y: 0, curve: 0 }, { x: k / size, y: push(k), curve: 1 }, { x: k / size, y: own[k], curve: 2 }] },
      { curves: [{ label: "push", xs, ys: xs.map(mean) },
          { label: "push of the true gradient", xs, ys: xs.map((p) => p * (1 - p)) },
          { label: "groups that push nothing", xs, ys: xs.map(wasted) }],
        points: [{ x: rate, y: mean(rate), curve: 0 }, { x: rate, y: truth, curve: 1 }, { x: rate, y: wasted(rate), curve: 2 }] },
    ],
  };
}
