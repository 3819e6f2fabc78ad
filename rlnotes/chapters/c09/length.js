// The mean log-ratio of a response over its length, log-ratios of tokens Gaussian: scatter, drift, and closed gates.
export function compute({ tokens, spread, mean, epsilon }) {
  const longest = 5, smallest = 1e-6, range = 10 ** epsilon;
  const xs = Array.from({ length: 10 * longest + 1 }, (_, i) => i / 10);
  const width = (x) => spread * 10 ** (-x / 2);
  const wrong = (x) => normal((Math.log1p(-range) - mean) / width(x));
  const right = (x) => normal((mean - Math.log1p(range)) / width(x));
  const drift = Math.log10(Math.max(Math.abs(mean), smallest));
  const draw = (named) => ({
    curves: named.map(([label, f]) => ({ label, xs, ys: xs.map(f) })),
    points: named.map(([, f], curve) => ({ x: tokens, y: f(tokens), curve })),
  });
  const T = 10 ** tokens, percent = (p) => `${(100 * p).toFixed(1)} %`;
  return {
    text: `T = ${T.toFixed(0)}: scatter ${width(tokens).toPrecision(2)}, drift ${mean.toPrecision(2)}, range ${range.toPrecision(2)}. ` +
      `Closed: ${percent(wrong(tokens))} of the wrong responses, ${percent(right(tokens))} of the right ones. ` +
      `At the edge of the range the whole response is (1 + ε)^T = 10^${(T * Math.log1p(range) / Math.LN10).toPrecision(2)} times as likely.`,
    panels: [
      draw([["scatter, σ/√T", (x) => Math.log10(width(x))], ["drift", () => drift], ["range ε", () => epsilon]]),
      draw([["wrong (A < 0)", wrong], ["right (A > 0)", right]]),
    ],
  };
}
