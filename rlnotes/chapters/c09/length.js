// The log-ratio of a response, log-ratios of tokens Gaussian around 0: its bell, the range, and closed gates by length.
export function compute({ tokens, sigma, epsilon }) {
  const farthest = 4, longest = 4, low = Math.log1p(-epsilon), high = Math.log1p(epsilon), scatter = sigma / Math.sqrt(tokens);
  const us = Array.from({ length: 20 * farthest + 1 }, (_, i) => (i - 10 * farthest) / 10);
  const xs = Array.from({ length: 10 * longest + 1 }, (_, i) => i / 10);
  const above = (x) => normal(-high / (sigma / 10 ** (x / 2)));
  // on the curve as it is drawn
  const at = Math.log10(tokens), i = Math.min(Math.floor(10 * at), xs.length - 2), part = 10 * at - i;
  const share = (1 - part) * above(xs[i]) + part * above(xs[i + 1]);
  const percent = (p) => `${(100 * p).toFixed(1)} %`;
  return {
    text: `The scatter of log r̄ is σ/√T = ${scatter.toPrecision(2)}; the range is ${(epsilon / scatter).toPrecision(2)} times that. ` +
      `Closed: ${percent(normal(-high / scatter))} of the right responses, ${percent(normal(low / scatter))} of the wrong ones. ` +
      `At the upper edge a response is (1 + ε)^T = 10^${(tokens * high / Math.LN10).toPrecision(2)} times as likely as before.`,
    panels: [
      { curves: [
        { label: "log r̄", xs: us.map((u) => scatter * u), ys: us.map((u) => Math.exp(-u * u / 2)) },
        { label: "inside the range", xs: [low, low, high, high], ys: [0, 1, 1, 0] },
      ], points: [{ x: 0, y: 1, curve: 0 }, { x: 0, y: 1, curve: 1 }] },
      { curves: [{ label: "closed", xs, ys: xs.map(above) }], points: [{ x: at, y: share, curve: 0 }] },
    ],
  };
}
