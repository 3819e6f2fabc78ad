// PPO's clip and dual clip: objective (78) of one token, its derivative by log pi, and a batch of ratios that scatter.
export function compute({ advantage, ratio, epsilon, dual, spread }) {
  const clipped = (r) => Math.min(r * advantage, Math.min(Math.max(r, 1 - epsilon), 1 + epsilon) * advantage);
  const dually = (r) => (advantage < 0 ? Math.max(clipped(r), dual * advantage) : clipped(r));
  const closed = (r) => (advantage > 0 && r > 1 + epsilon) || (advantage < 0 && r < 1 - epsilon);
  const push = (r) => (closed(r) ? 0 : r * advantage);
  const dualPush = (r) => (advantage < 0 && r > dual ? 0 : push(r));
  const plain = (r) => r * advantage;
  const xs = Array.from({ length: 100 }, (_, i) => (i + 0.5) / 20);
  // log ratio: logistic of scale s, moved by m so that the mean ratio is 1
  const bump = (x) => (Math.PI * x) / Math.sin(Math.PI * x);
  const below = (x, s) => 1 / (1 + Math.exp(-(x + Math.log(bump(s))) / s));
  const outside = (s) => below(Math.log(1 - epsilon), s) + 1 - below(Math.log(1 + epsilon), s);
  const chi2 = (s) => bump(2 * s) / bump(s) ** 2 - 1;
  const spreads = Array.from({ length: 45 }, (_, i) => (i + 1) / 100);
  const panel = (functions) => ({
    curves: functions.map(([label, f]) => ({ label, xs, ys: xs.map(f) })),
    points: functions.map(([, f], i) => ({ x: ratio, y: f(ratio), curve: i })),
  });
  const number = (x) => String(+x.toFixed(2));
  return {
    text: `This token pushes its log-probability with ${number(push(ratio))}; without a clip with ${number(plain(ratio))}, `
      + `with the dual clip with ${number(dualPush(ratio))}. In the batch ${Math.round(100 * outside(spread))} % of the ratios are outside the band.`,
    panels: [
      panel([["clip", clipped], ["dual clip", dually], ["no clip", plain]]),
      panel([["clip", push], ["dual clip", dualPush], ["no clip", plain]]),
      { curves: [{ label: "share outside", xs: spreads, ys: spreads.map(outside) }, { label: "mean of r² − 1", xs: spreads, ys: spreads.map(chi2) }],
        points: [{ x: spread, y: outside(spread), curve: 0 }, { x: spread, y: chi2(spread), curve: 1 }] },
    ],
  };
}
