// Stored runs of the chapter's loop: accuracy, and what is shut before the first step of a round. RUNS: by centre and
// rate their title, and J, good and bad over rounds by seed; FRESH: J by seed.
export function compute({ centre, rate, seed, round }) {
  const { title, J, good, bad } = RUNS[centre][rate];
  const rounds = J[seed].map((_, i) => i + 1);
  const panel = (curves) => ({
    curves: curves.map(([label, ys]) => ({ label, xs: rounds, ys })),
    points: curves.map(([, ys], curve) => ({ x: round, y: ys[round - 1], curve })),
  });
  const left = [[title, J[seed]], ["fresh data, 8e-4", FRESH[seed]]];
  const right = [["good tokens", good[seed]], ["bad tokens", bad[seed]]];
  const percent = (ys) => `${(100 * ys[round - 1]).toFixed(0)} %`;
  return {
    text: `${title}, seed ${seed}, round ${round}: J is ${J[seed][round - 1].toFixed(2)}, with fresh data ` +
      `${FRESH[seed][round - 1].toFixed(2)}. Before the first step ${percent(good[seed])} of the push on good tokens ` +
      `is shut, and ${percent(bad[seed])} of that on bad ones.`,
    panels: [panel(left), panel(right)],
  };
}
