// Three clips of a token from old data: term and push over the ratio to mu, for |A| = 1.
export function compute({ sign, current, ratio, epsilon, rarity }) {
  const A = sign > 0 ? 1 : -1;
  const bands = [
    ["PPO", 1 - epsilon, 1 + epsilon],
    ["Method 1", current - epsilon, current + epsilon],
    ["Method 2", current - epsilon * current, current + epsilon * current],
    ["unclipped", -Infinity, Infinity],
  ];
  const clip = (r, low, high) => Math.min(Math.max(r, low), high);
  const term = ([, low, high]) => (r) => Math.min(r * A, clip(r, low, high) * A);
  const push = ([, low, high]) => (r) => ((A > 0 ? r < high : r > low) ? r * A : 0);
  const xs = Array.from({ length: 160 }, (_, i) => (i + 1) / 32);
  const panel = (of) => ({
    curves: bands.map((band) => ({ label: band[0], xs, ys: xs.map(of(band)) })),
    points: bands.map((band, i) => ({ x: ratio, y: of(band)(ratio), curve: i })),
  });
  const mu = 10 ** rarity;
  const small = (x) => (Math.abs(x) < 0.01 ? x.toExponential(1) : String(+x.toFixed(3)));
  const end = ([, low, high]) => (A > 0 ? high : Math.max(low, 0));
  const side = A > 0 ? "upper" : "lower";
  const said = bands.slice(0, 3).map((band) => {
    const open = push(band)(ratio) !== 0 ? "pushes" : "is closed";
    return `${band[0]} ${open}; its ${side} end is at π = ${small(end(band) * mu)}`;
  });
  const start = `The token had μ = ${small(mu)} and has π_k = ${small(current * mu)}.`;
  const stores = "PPO needs log μ alone, the two others log μ and log π_k.";
  return { text: `${start} ${said.join(". ")}. ${stores}`, panels: [panel(term), panel(push)] };
}
