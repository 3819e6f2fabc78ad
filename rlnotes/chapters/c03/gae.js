// Bias and variance of the policy gradient with GAE: polynomials in lambda and in the critic's error, their coefficients in TABLES.
export function compute({ lam, episodes, blur }) {
  const at = (table, l) => table.reduceRight((sum, row) => sum * l + row[0] + blur * (row[1] + blur * row[2]), 0);
  const bias = (l) => Math.max(0, at(TABLES.squaredBias, l)), noise = (l, n) => at(TABLES.variance, l) / n;
  const lambdas = Array.from({ length: 51 }, (_, i) => i / 50), counts = Array.from({ length: 300 }, (_, i) => i + 1);
  const best = (n) => lambdas.reduce((a, b) => (bias(b) + noise(b, n) < bias(a) + noise(a, n) ? b : a));
  const now = bias(lam) + noise(lam, episodes), share = Math.round((100 * bias(lam)) / now);
  const chosen = best(episodes);
  const critic = blur === 0 ? "The critic is exact, so no λ has a bias." : `Bias makes ${share} % of it.`;
  const said = Math.abs(chosen - lam) < 1e-9 ? "No λ does better." : `λ = ${chosen.toFixed(2)} has the smallest, ${(bias(chosen) + noise(chosen, episodes)).toPrecision(3)}.`;
  return {
    text: `The squared error of the gradient is ${now.toPrecision(3)} with ${episodes} episode${episodes === 1 ? "" : "s"}. ${critic} ${said}`,
    panels: [
      { curves: [{ label: "sum", xs: lambdas, ys: lambdas.map((l) => bias(l) + noise(l, episodes)) },
                 { label: "variance / N", xs: lambdas, ys: lambdas.map((l) => noise(l, episodes)) },
                 { label: "bias²", xs: lambdas, ys: lambdas.map(bias) }],
        points: [{ x: lam, y: now, curve: 0 }, { x: lam, y: noise(lam, episodes), curve: 1 }, { x: lam, y: bias(lam), curve: 2 }] },
      { curves: [{ label: "best λ", xs: counts, ys: counts.map(best) }], points: [{ x: episodes, y: chosen, curve: 0 }] },
    ],
  };
}
