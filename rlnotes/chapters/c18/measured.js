// Penalties of bounds over the length, and shares that masks drop over the tail, for log-normal ratios of mean 1.
export function compute({ tail, length, likely }) {
  const spread = (y) => 10 ** y / 3.2905267314919255; // one token in a thousand is beyond
  const above = (s, ratio) => normal(-Math.log(ratio) / s - s / 2);
  const below = (s, ratio) => (ratio > 0 ? normal(Math.log(ratio) / s + s / 2) : 0);
  const s = spread(tail), tv = 2 * normal(s / 2) - 1, kl = s * s / 2, T = 2 ** length, edge = 0.15 / likely;
  const out = (y) => above(spread(y), Math.exp(0.5)) + below(spread(y), Math.exp(-0.5));
  const penalties = {
    "004": (t) => t * (t - 1) * tv * tv,
    "001": (t) => (2 / 3) * t ** 1.5 * kl,
    "sum of TV": (t) => t * tv,
    D_seq: (t) => t * kl,
  };
  const dropped = {
    clip: (y) => (above(spread(y), 1.28) + below(spread(y), 0.8)) / 2,
    DPPO: (y) => (above(spread(y), 1 + edge) + below(spread(y), 1 - edge)) / 2,
    "TRM max": (y) => -Math.expm1(T * Math.log1p(-out(y))),
  };
  const xs = Array.from({ length: 53 }, (_, i) => 1 + i / 4);
  const ys = Array.from({ length: 36 }, (_, i) => i / 10 - 3);
  const panel = (named, f, at, grid) => ({
    curves: Object.entries(named).map(([label, g]) => ({ label, xs: grid, ys: grid.map(f(g)) })),
    points: Object.values(named).map((g, curve) => ({ x: at, y: f(g)(at), curve })),
  });
  const small = (x) => (x !== 0 && Math.abs(x) < 0.001 ? x.toExponential(1) : String(+x.toPrecision(3)));
  const percent = (share) => (share < 1e-5 ? "under 0.001 %" : `${+(100 * share).toPrecision(3)} %`);
  const idle = Object.entries(penalties).filter(([, g]) => g(T) >= 1).map(([name]) => name);
  const said = Object.entries(dropped).map(([name, g]) => `by ${name} ${percent(g(tail))} of the ${name === "TRM max" ? "responses" : "tokens"}`);
  return {
    text: `T = ${T}; one token in 1000 has |log ratio| above ${small(10 ** tail)}: at each token TV ${small(tv)}, ` +
      `KL ${small(kl)}. Penalties: ${Object.entries(penalties).map(([name, g]) => `${name} ${small(g(T))}`).join("; ")}. ` +
      `${idle.length ? `Not below 1: ${idle.join("; ")}.` : "All are below 1."} Dropped: ${said.join("; ")}.`,
    panels: [panel(penalties, (g) => (x) => Math.log10(g(2 ** x)), length, xs), panel(dropped, (g) => (y) => g(y), tail, ys)],
  };
}
