// Three clips of a token from old data: term and push over the ratio to mu, for |A| = 1.
export function compute({ sign, current, ratio, epsilon }) {
  const A = sign > 0 ? 1 : -1;
  const bands = [
    ["at mu", 1 - epsilon, 1 + epsilon],
    ["at pi_k, plus", current - epsilon, current + epsilon],
    ["at pi_k, times", current - epsilon * current, current + epsilon * current],
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
  const end = ([, low, high]) => +(A > 0 ? high : Math.max(low, 0)).toFixed(3);
  const side = A > 0 ? "upper" : "lower";
  const said = bands.slice(0, 3).map((band) => {
    const open = push(band)(ratio) !== 0 ? "pushes" : "is shut";
    return `${band[0]} ${open}, its ${side} end is ${end(band)}`;
  });
  return { text: `${said.join("; ")}.`, panels: [panel(term), panel(push)] };
}
