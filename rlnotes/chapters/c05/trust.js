// TRPO: what a step of mean KL delta, the largest too if all states are alike, is promised by the bounds with the largest and with the mean KL, and which delta they promise most.
export function compute({ delta, horizon, sigma, peak }) {
  const largest = sigma * peak, H = 10 ** horizon;
  const surrogate = (log) => sigma * Math.sqrt(2 * 10 ** log);
  const costs = [(h) => 2 * (1 - 1 / h) * largest * h, (h) => h]; // per nat, times 1 - gamma
  const promised = costs.map((cost) => (log) => surrogate(log) - cost(H) * 10 ** log);
  const best = costs.map((cost) => (log) => Math.log10(sigma ** 2 / (2 * cost(10 ** log) ** 2)));
  const deltas = Array.from({ length: 101 }, (_, i) => i / 20 - 6), horizons = Array.from({ length: 271 }, (_, i) => (i + 30) / 100);
  const names = ["max KL", "mean KL"];
  const shown = (x) => (x < 0 ? "−" : "") + Math.abs(x).toPrecision(3);
  const most = best.map((f) => shown(10 ** f(horizon)));
  const curve = (label, xs, f) => ({ label, xs, ys: xs.map(f) });
  return {
    text: `γ = ${shown(1 - 1 / H)}. A step of mean KL ${shown(10 ** delta)} raises the surrogate by about ${shown(surrogate(delta))}, in units of range / (1 − γ). ` +
      `Promised: ${shown(promised[0](delta))} with the largest KL, ${shown(promised[1](delta))} with the mean KL. ` +
      `They promise most at δ = ${most[0]} and at δ = ${most[1]}.`,
    panels: [
      { curves: [...names.map((name, i) => curve(name, deltas, promised[i])), curve("surrogate", deltas, surrogate)],
        points: [...promised, surrogate].map((f, i) => ({ x: delta, y: f(delta), curve: i })) },
      { curves: [...names.map((name, i) => curve(name, horizons, best[i])), curve("your δ", horizons, () => delta)],
        points: [...best, () => delta].map((f, i) => ({ x: horizon, y: f(horizon), curve: i })) },
    ],
  };
}
