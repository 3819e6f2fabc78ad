// How far a clip and DPPO let a good token rise: in one rollout, and from edge to edge. RUNS: medians of stored runs.
export function compute({ start, high, limit, rollouts }) {
  const mu = 10 ** start, growth = 1 + high;
  const clip = (p) => Math.min(growth * p, 1), dppo = (p) => Math.min(p + limit, 1);
  const before = Array.from({ length: 101 }, (_, i) => i / 100);
  const steps = Array.from({ length: 17 }, (_, i) => i);
  const counted = [(n) => Math.min(mu * growth ** n, 1), (n) => Math.min(mu + limit * n, 1)];
  const edges = [["clip of the ratio", clip], ["DPPO", dppo], ["unchanged", (p) => p]];
  const walks = [["clip, counted", counted[0]], ["DPPO, counted", counted[1]]];
  const measured = Object.entries(RUNS);
  const last = (run) => run[Math.min(rollouts, run.length - 1)];
  const until = (run) => { const n = run.findIndex((p) => p >= 0.9); return n < 0 ? "more than 16" : n; };
  const small = (x) => String(+x.toPrecision(3));
  const text = `One rollout: from ${small(mu)} to ${small(clip(mu))} with the clip, to ${small(dppo(mu))} with DPPO. ` +
    `From edge to edge, rollouts until 0.9: ${counted.map((p) => until(steps.map(p))).join(" with the clip, ")} with ` +
    `DPPO. Measured, from 0.02, median of six runs: ${measured.map(([, run]) => until(run)).join(" and ")}. ` +
    `After ${rollouts}: counted ${counted.map((p) => small(p(rollouts))).join(" and ")}, ` +
    `measured ${measured.map(([, run]) => small(last(run))).join(" and ")}.`;
  return {
    text,
    panels: [
      { curves: edges.map(([label, y]) => ({ label, xs: before, ys: before.map(y) })),
        points: edges.map(([, y], curve) => ({ x: mu, y: y(mu), curve })) },
      { curves: [...walks.map(([label, y]) => ({ label, xs: steps, ys: steps.map(y) })),
                 ...measured.map(([label, run]) => ({ label, xs: run.map((_, i) => i), ys: run }))],
        points: [...walks.map(([, y], curve) => ({ x: rollouts, y: y(rollouts), curve })),
                 ...measured.map(([, run], i) => ({ x: rollouts, y: last(run), curve: 2 + i }))] },
    ],
  };
}
