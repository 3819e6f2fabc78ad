// The curve of the real model as it was measured. PANELS: for each panel label, xs and ys.
export function compute({ seconds }) {
  const at = (xs, ys, x) => {
    const i = Math.min(Math.max(xs.findIndex((each) => each >= x), 1), xs.length - 1);
    return x > xs[i] ? ys[i] : ys[i - 1] + ((ys[i] - ys[i - 1]) * (x - xs[i - 1])) / (xs[i] - xs[i - 1]);
  };
  const panel = (curves, x) => ({
    curves: curves.map(([label, xs, ys]) => ({ label, xs, ys })),
    points: curves.map(([, xs, ys], curve) => ({ x, y: at(xs, ys, x), curve })),
  });
  const panels = [panel(PANELS[0], seconds)];
  const percent = (share) => `${(100 * share).toFixed(0)} %`;
  const [sampled, greedy] = panels[0].points.map((point) => percent(point.y));
  return {
    text: `After ${seconds} seconds of steps ${sampled} of the sampled answers are right, and ${greedy} of the greedy ones.`,
    panels,
  };
}
