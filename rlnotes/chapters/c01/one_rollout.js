// Stored runs of many updates on one rollout. RUNS: by task, objective, rate and rollout, what the rollout, a held-out
// one and new prompts say, and both effective shares, at every fourth update.
export function compute({ task, arm, fast, seed, update }) {
  const run = RUNS[((task * 2 + arm) * 2 + fast) * 6 + seed];
  const updates = run.J.map((_, i) => 4 * i);
  const panel = (curves) => ({
    curves: curves.map(([label, ys]) => ({ label, xs: updates, ys })),
    points: curves.map(([, ys], curve) => ({ x: update, y: ys[update / 4], curve })),
  });
  const at = (ys) => ys[update / 4].toFixed(2);
  return {
    text: `${["sort", "misled"][task]}, ${["weights", "clip"][arm]}, ${["small", "large"][fast]} rate, rollout ${seed}, ` +
      `after ${update} updates: its own rollout says ${at(run.own)}, a held-out one ${at(run.held)}; true is ${at(run.J)}.`,
    panels: [
      panel([["its own rollout says", run.own], ["a held-out one says", run.held], ["true, new prompts", run.J]]),
      panel([["its own rollout", run.own_ess], ["a held-out one", run.held_ess]]),
    ],
  };
}
