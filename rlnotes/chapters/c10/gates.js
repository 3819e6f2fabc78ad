// The clip's gate, a soft one and none over the ratio; and the ratio of one token under gradient ascent behind each.
export function compute({ tau, sides, sign, begin }) {
  const advantage = sign > 0 ? 1 : -1, sampled = sign > 0 ? 0.05 : 0.3, steps = 100, step = 0.5;
  const away = (r) => (r - 1) * advantage > 0; // has it moved the way its advantage asks?
  const gates = [
    ["clip", (r) => (away(r) && Math.abs(r - 1) > 0.2 ? 0 : 1)],
    ["soft", (r) => (sides < 2 && !away(r) ? 1 : Math.cosh((tau / 2) * (r - 1)) ** -2)], // sech squared
    ["unclipped", () => 1],
  ];
  const xs = Array.from({ length: 128 }, (_, i) => (i + 1) / 32);
  const times = Array.from({ length: steps + 1 }, (_, i) => i);
  const paths = gates.map(([, gate]) => {
    let z = Math.log((sampled * begin) / (1 - sampled * begin)); // its logit against all others
    return times.map(() => {
      const p = 1 / (1 + Math.exp(-z)), r = p / sampled;
      z += step * gate(r) * advantage * p * (1 - p);
      return r;
    });
  });
  const number = (x) => (x < 0.005 ? x.toExponential(1) : x.toFixed(2));
  const ends = gates.map(([name], i) => `${name} ${number(paths[i][steps])}`).join(", ");
  const kind = advantage > 0 ? "good token, rare when sampled (0.05)," : "bad token, sampled with probability 0.3,";
  return {
    text: `A ${kind} starts at ratio ${begin}. Its soft gate there: ${number(gates[1][1](begin))}. Ratio after ${steps} steps: ${ends}.`,
    panels: [
      { curves: gates.map(([label, gate]) => ({ label, xs, ys: xs.map(gate) })),
        points: gates.map(([, gate], curve) => ({ x: begin, y: gate(begin), curve })) },
      { curves: gates.map(([label], i) => ({ label, xs: times, ys: paths[i] })),
        points: paths.map((path, curve) => ({ x: steps, y: path[steps], curve })) },
    ],
  };
}
