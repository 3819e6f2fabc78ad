// Token ratio, product (105) and geometric mean (107) over the length, log-ratios Gaussian; and what clips of them close.
export function compute({ tokens, mean, spread, epsilon, sign }) {
  const size = (power) => (x) => Math.log10(Math.hypot(mean * 10 ** (x * Math.max(power, 0)), spread * 10 ** (x * power / 2)));
  const closed = (range, power) => (x) => {
    const s = spread * 10 ** (x * power / 2);
    return sign >= 0 ? normal((mean - Math.log1p(range)) / s) : normal((Math.log1p(-range) - mean) / s);
  };
  const xs = Array.from({ length: 41 }, (_, i) => i / 10);
  const straight = (f) => { // on the line between two of the drawn points, where the marker stands
    const i = Math.min(39, Math.floor(tokens * 10 + 1e-9)), left = f(i / 10), right = f((i + 1) / 10);
    return left + (right - left) * (tokens * 10 - i);
  };
  const draw = (named) => ({
    curves: named.map(([label, f]) => ({ label, xs, ys: xs.map(f) })),
    points: named.map(([, f], curve) => ({ x: tokens, y: straight(f), curve })),
  });
  const left = draw([["token", size(0)], ["product", size(1)], ["geometric mean", size(-1)], ["range ε", () => epsilon]]);
  const right = draw([["clip of tokens, 0.2", closed(0.2, 0)], ["clip of responses, ε", closed(10 ** epsilon, -1)]]);
  const T = 10 ** tokens, percent = (p) => `${(100 * p).toFixed(1)} %`;
  return {
    text: `T = ${T.toFixed(0)}, ε = ${(10 ** epsilon).toPrecision(2)}. A usual response: product ${Math.exp(mean * T).toPrecision(4)}, ` +
      `geometric mean ${Math.exp(mean).toFixed(5)} with spread ${(spread / Math.sqrt(T)).toPrecision(2)}. Without a gradient, A ` +
      `${sign >= 0 ? "positive" : "negative"}: ${percent(closed(0.2, 0)(tokens))} of the tokens one by one, ` +
      `${percent(closed(10 ** epsilon, -1)(tokens))} of the responses whole.`,
    panels: [left, right],
  };
}
