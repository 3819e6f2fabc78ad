// What a number of runs shows: two recipes with Gaussian scores, and many that are all the same.
export function compute({ seeds, gap, spread, recipes }) {
  const beyond = (p) => { // the z that a standard Gaussian exceeds with chance p, by halving
    let low = 0, high = 10;
    for (let k = 0; k < 80; k++) { const z = (low + high) / 2; if (normal(-z) > p) low = z; else high = z; }
    return (low + high) / 2;
  };
  const usual = beyond(0.025);
  const apart = (n) => gap / (spread * Math.sqrt(2 / n));
  const seen = (n, z) => normal(apart(n) - z);
  const last = beyond(0.025 / recipes);
  const false_ = (k, level) => 1 - (1 - level) ** k;
  const left = {
    "wrong order": (n) => normal(-apart(n)),
    "seen, each": (n) => seen(n, usual),
    "seen, all": (n) => seen(n, last),
  };
  const right = {
    "false, each": (k) => false_(k, 0.05),
    "false, all": (k) => false_(k, 0.05 / k),
    "seen, all": (k) => seen(seeds, beyond(0.025 / k)),
  };
  const grid = (from) => Array.from({ length: 41 - from }, (_, i) => from + i);
  const panel = (named, at, xs) => ({
    curves: Object.entries(named).map(([label, f]) => ({ label, xs, ys: xs.map(f) })),
    points: Object.values(named).map((f, curve) => ({ x: at, y: f(at), curve })),
  });
  const percent = (share) => (share < 0.0005 ? "under 0.1 %" : `${(100 * share).toFixed(1)} %`);
  const runs = (n, verb) => `${n} ${verb}${n === 1 ? "" : "s"}`;
  return {
    text: `${runs(seeds, "run")} of each: the wrong order in ${percent(left["wrong order"](seeds))} of all tables. ` +
      `A lead of ${gap.toFixed(3)} is seen in ${percent(left["seen, each"](seeds))}, with a line for all ` +
      `${runs(recipes, "verdict")} in ${percent(left["seen, all"](seeds))}. Were all recipes the same, some verdict would be false in ` +
      `${percent(right["false, each"](recipes))}, with the line for all in ${percent(right["false, all"](recipes))}.`,
    panels: [panel(left, seeds, grid(2)), panel(right, recipes, grid(1))],
  };
}
