// Two rooms: old always heads for room 0, new for room 1, a mixture of both. Left what old data say and the truth, right why.
export function compute({ alpha, gamma }) {
  const home = 1 / (1 - 0.9 * gamma - 0.04 * gamma * gamma / (1 - 0.6 * gamma)); // the old policy's value of room 0
  const away = 0.4 * gamma * home / (1 - 0.6 * gamma);
  const better = [gamma * (0.2 * home + 0.8 * away) - home, 2 + gamma * (0.1 * home + 0.9 * away) - away];
  const room1 = (a) => { // its share of visits, when a share a of the actions heads for it
    const there = 0.1 + 0.7 * a, stay = 0.6 + 0.3 * a;
    return gamma * there / (1 - gamma * stay + gamma * there);
  };
  const change = (a, share) => a * ((1 - share) * better[0] + share * better[1]) / (1 - gamma);
  const truth = (a) => change(a, room1(a)), surrogate = (a) => change(a, room1(0));
  const xs = Array.from({ length: 51 }, (_, i) => i / 50), here = room1(alpha), before = room1(0);
  const J = truth(alpha), L = surrogate(alpha), signed = (x) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);
  const verdict = alpha === 0 ? "Nothing has changed yet." : L < 0 && J > 0 ? "Old data condemn a step that gains." :
    L < 0 && J < 0 ? "Both say: a loss." : "";
  return {
    text: `Old data say ${signed(L)}, the truth is ${signed(J)}. ${verdict} Room 1 has ${here.toFixed(2)} of the visits, ` +
      `and had ${before.toFixed(2)} in the old data.`,
    panels: [
      { curves: [{ label: "true change", xs, ys: xs.map(truth) }, { label: "old data say", xs, ys: xs.map(surrogate) }],
        points: [{ x: alpha, y: J, curve: 0 }, { x: alpha, y: L, curve: 1 }] },
      { curves: [{ label: "new policy", xs, ys: xs.map(room1) }, { label: "old data", xs, ys: xs.map(() => before) }],
        points: [{ x: alpha, y: here, curve: 0 }, { x: alpha, y: before, curve: 1 }] },
    ],
  };
}
