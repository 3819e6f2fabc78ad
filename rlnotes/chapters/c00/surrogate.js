// Example 4.1.1 of source 002: what a local surrogate predicts for a step of a given size, and what the return does; no discount.
export function compute({ step, damage, rare }) {
  const careless = 0.001;
  const value = 1 - careless * (1 + damage);
  const predicted = (a) => a * ((1 - rare) * value - rare * (1 + damage) * (1 - careless));
  const reach = (a) => (1 - a) * rare + a, slip = (a) => (1 - a) * careless + a;
  const truth = (a) => reach(a) * (1 - slip(a) * (1 + damage)) - rare * value;
  const xs = Array.from({ length: 101 }, (_, i) => i / 100);
  const p = predicted(step), t = truth(step);
  const verdict = p > 0 && t < 0 ? "The surrogate loves this step, and the return hates it." :
    p > 0 ? "Surrogate and return both gain." : "The surrogate advises against the step.";
  return {
    text: `Predicted change ${p.toFixed(3)}, true change ${t.toFixed(3)}. ${verdict}`,
    panels: [
      { curves: [{ label: "predicted", xs, ys: xs.map(predicted) }, { label: "true", xs, ys: xs.map(truth) }],
        points: [{ x: step, y: p, curve: 0 }, { x: step, y: t, curve: 1 }] },
    ],
  };
}
