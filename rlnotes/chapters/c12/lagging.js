// Stored runs of the chapter's loop: accuracy, and the distance to who wrote. RUNS: by arm, its title, what is fresh
// at its rate, and J and S over rounds by seed.
export function compute({ arm, seed, round }) {
  const { title, fresh, J, S } = RUNS[arm];
  const rounds = J[0].map((_, i) => i + 1);
  const end = (of) => rounds.map((_, i) => of(...S.map((run) => run[i])));
  const left = [[title, J[seed]], ["fresh, same rate", RUNS[fresh].J[seed]]];
  const right = [["this run", S[seed]], ["lowest of six", end(Math.min)], ["highest of six", end(Math.max)]];
  const panel = (curves) => ({
    curves: curves.map(([label, ys]) => ({ label, xs: rounds, ys })),
    points: curves.map(([, ys], curve) => ({ x: round, y: ys[round - 1], curve })),
  });
  return {
    text: `${title}, seed ${seed}, before round ${round}: J is ${left[0][1][round - 1].toFixed(3)}, with fresh data ` +
      `${left[1][1][round - 1].toFixed(3)}. S is ${right[0][1][round - 1].toFixed(3)}.`,
    panels: [panel(left), panel(right)],
  };
}
