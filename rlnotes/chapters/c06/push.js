// PPO's clip and dual clip: objective (78) of one token, its derivative by log pi.
export function compute({ advantage, ratio, epsilon, dual }) {
  const clipped = (r) => Math.min(r * advantage, Math.min(Math.max(r, 1 - epsilon), 1 + epsilon) * advantage);
  const dually = (r) => (advantage < 0 ? Math.max(clipped(r), dual * advantage) : clipped(r));
  const closed = (r) => (advantage > 0 && r > 1 + epsilon) || (advantage < 0 && r < 1 - epsilon);
  const push = (r) => (closed(r) ? 0 : r * advantage);
  const dualPush = (r) => (advantage < 0 && r > dual ? 0 : push(r));
  const plain = (r) => r * advantage;
  const xs = Array.from({ length: 100 }, (_, i) => (i + 0.5) / 20);
  const panel = (functions) => ({
    curves: functions.map(([label, f]) => ({ label, xs, ys: xs.map(f) })),
    points: functions.map(([, f], i) => ({ x: ratio, y: f(ratio), curve: i })),
  });
  const number = (x) => String(+x.toFixed(2));
  return {
    text: `This token pushes its log-probability with ${number(push(ratio))}; without a clip with ${number(plain(ratio))}, `
      + `with the dual clip with ${number(dualPush(ratio))}.`,
    panels: [
      panel([["no clip", plain], ["clip", clipped], ["dual clip", dually]]),
      panel([["no clip", plain], ["clip", push], ["dual clip", dualPush]]),
    ],
  };
}
