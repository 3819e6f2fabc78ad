// PPO's clip (96): the surrogate of one token and its derivative, over the ratio.
export function compute({ ratio, advantage, epsilon }) {
  const surrogate = (r) => Math.min(r * advantage, Math.min(Math.max(r, 1 - epsilon), 1 + epsilon) * advantage);
  const closed = (r) => (advantage > 0 && r > 1 + epsilon) || (advantage < 0 && r < 1 - epsilon);
  const slope = (r) => (closed(r) ? 0 : advantage);
  const xs = Array.from({ length: 200 }, (_, i) => (i + 0.5) / 100);
  const region = ratio > 1 + epsilon ? "above 1 + ε" : ratio < 1 - epsilon ? "below 1 − ε" : "inside the band";
  let said = "pushed up: its gradient is A";
  if (advantage === 0) said = "left alone: its advantage is 0";
  else if (closed(ratio)) said = "held back: it has moved far enough in the wanted direction, and gets no gradient";
  else if (advantage < 0 && ratio > 1 + epsilon) said = "pushed back down, with the full gradient A: a bad token that has become more likely";
  else if (advantage > 0 && ratio < 1 - epsilon) said = "pushed back up, with the full gradient A: a good token that has become less likely";
  else if (advantage < 0) said = "pushed down: its gradient is A";
  return {
    text: `The ratio is ${region}. The token is ${said}.`,
    panels: [
      { curves: [{ label: "clipped", xs, ys: xs.map(surrogate) }, { label: "ratio × advantage", xs, ys: xs.map((r) => r * advantage) }],
        points: [{ x: ratio, y: surrogate(ratio), curve: 0 }, { x: ratio, y: ratio * advantage, curve: 1 }] },
      { curves: [{ label: "derivative", xs, ys: xs.map(slope) }], points: [{ x: ratio, y: slope(ratio), curve: 0 }] },
    ],
  };
}
