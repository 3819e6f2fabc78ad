// Conservative policy iteration, 002 (60) and (61): what a step of size alpha is promised, and the step that is promised most.
export function compute({ alpha, mean, epsilon, gamma }) {
  const largest = Math.max(epsilon, Math.abs(mean)), away = 1 - gamma;
  const source = (a) => a * mean - (2 * gamma * largest * a * a) / away;
  const sharp = (a) => a * mean - (2 * gamma * largest * a * a) / (1 - gamma * (1 - a));
  const best = (g) => (mean <= 0 ? 0 : g === 0 ? 1 : Math.min(1, ((1 - g) * mean) / (4 * g * largest)));
  const bestSharp = (g) => (mean <= 0 ? 0 : g === 0 ? 1 : Math.min(1, ((1 - g) / g) * (1 / Math.sqrt(1 - mean / (2 * largest)) - 1)));
  const steps = Array.from({ length: 101 }, (_, i) => i / 200), gammas = Array.from({ length: 96 }, (_, i) => i / 100);
  const shown = (x) => (x < 0 ? "−" : "") + Math.abs(x).toPrecision(3);
  const raised = largest > epsilon ? ` ε is raised to ${shown(largest)}: a largest size is at least a mean.` : "";
  const said = mean <= 0 ? "g is not positive: no step is promised anything, and CPI stays." :
    `Of all steps (60) promises most to ${shown(best(gamma))}, Kakade and Langford to ${shown(bestSharp(gamma))}.`;
  return {
    text: `g = ${shown(mean / away)}. The step ${shown(alpha)} changes J by at least ${shown(source(alpha) / away)} by (60), ` +
      `by at least ${shown(sharp(alpha) / away)} by Kakade and Langford. ${said}${raised}`,
    panels: [
      { curves: [{ label: "αg", xs: steps, ys: steps.map((a) => a * mean) }, { label: "(60)", xs: steps, ys: steps.map(source) },
                 { label: "Kakade, Langford", xs: steps, ys: steps.map(sharp) }],
        points: [{ x: alpha, y: alpha * mean, curve: 0 }, { x: alpha, y: source(alpha), curve: 1 }, { x: alpha, y: sharp(alpha), curve: 2 }] },
      { curves: [{ label: "(61)", xs: gammas, ys: gammas.map(best) }, { label: "Kakade, Langford", xs: gammas, ys: gammas.map(bestSharp) }],
        points: [{ x: gamma, y: best(gamma), curve: 0 }, { x: gamma, y: bestSharp(gamma), curve: 1 }] },
    ],
  };
}
