// PPO's clip and dual clip: objective (78) of one token, its derivative by log pi, and a batch of ratios that scatter.
export function compute({ advantage, ratio, epsilon, dual, spread }) {
  const clipped = (r) => Math.min(r * advantage, Math.min(Math.max(r, 1 - epsilon), 1 + epsilon) * advantage);
  const dually = (r) => (advantage < 0 ? Math.max(clipped(r), dual * advantage) : clipped(r));
  const closed = (r) => (advantage > 0 && r > 1 + epsilon) || (advantage < 0 && r < 1 - epsilon);
  const push = (r) => (closed(r) ? 0 : r * advantage);
  const dualPush = (r) => (advantage < 0 && r > dual ? 0 : push(r));
  const plain = (r) => r * advantage;
  const xs = Array.from({ length: 100 }, (_, i) => (i + 0.5) / 20);
  // log ratio: normal of deviation s and mean -s^2 / 2, so that the mean ratio is 1
  const below = (x, s) => (1 + erf((x + s * s / 2) / (s * Math.SQRT2))) / 2;
  const outside = (s) => below(Math.log(1 - epsilon), s) + 1 - below(Math.log(1 + epsilon), s);
  const chi2 = (s) => Math.expm1(s * s);
  const spreads = Array.from({ length: 80 }, (_, i) => (i + 1) / 100);
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

// Error function by its series of positive terms; from 6 on it is 1 in double precision.
function erf(x) {
  const z = Math.min(Math.abs(x), 6);
  let term = z, sum = z;
  for (let n = 1; term > 1e-17 * sum; n++) sum += term *= (2 * z * z) / (2 * n + 1);
  return (Math.sign(x) * 2 * Math.exp(-z * z) * sum) / Math.sqrt(Math.PI);
}
