// One sampled token of mu, pi_k and pi: the weight M min(r, C) before its A grad log pi under eleven objectives.
export function compute({ sign, before, at, now }) {
  const low = 0.2, high = 0.28, cap = 3, tv = 0.15, kl = 0.05, bad = 0.5;
  const prob = (odds) => 1 / (1 + 10 ** -odds);
  const mu = prob(before), recomputed = prob(at);
  const clipped = (anchor) => (p) => (sign > 0 ? p / anchor > 1 + high : p / anchor < 1 - low);
  const binaryKL = (q, p) => q * Math.log(q / p) + (1 - q) * Math.log((1 - q) / (1 - p));
  const binaryTV = (q, p) => Math.abs(q - p);
  const far = (anchor, divergence, limit) => (p) => sign * (p - anchor) > 0 && divergence(anchor, p) > limit;
  const fallen = (anchor) => (p) => sign < 0 && anchor - p >= bad;
  const never = () => false;
  const groups = [
    { "PG-IS": never, "PG-TIS": never, "0.5, μ": fallen(mu), "0.5, π_k": fallen(recomputed) },
    { "clip, μ": clipped(mu), MiniRL: clipped(recomputed), "MiniRL-TIS": clipped(recomputed) },
    { "TV, μ": far(mu, binaryTV, tv), "KL, μ": far(mu, binaryKL, kl),
      "TV, π_k": far(recomputed, binaryTV, tv), "KL, π_k": far(recomputed, binaryKL, kl) },
  ];
  const weight = (name, dropped, odds) => {
    const p = prob(odds), ratio = p / mu;
    return dropped(p) ? 0 : name.endsWith("TIS") ? Math.min(ratio, cap) : ratio;
  };
  const xs = Array.from({ length: 61 }, (_, i) => (i - 40) / 10);
  const height = (i, w) => i + (0.8 * w) / (1 + w);
  const panels = groups.map((group) => {
    const entries = Object.entries(group);
    return {
      curves: entries.map(([name, dropped], i) => ({ label: name, xs, ys: xs.map((x) => height(i, weight(name, dropped, x))) })),
      points: entries.map(([name, dropped], i) => ({ x: now, y: height(i, weight(name, dropped, now)), curve: i })),
    };
  });
  const small = (x) => (x !== 0 && Math.abs(x) < 0.001 ? x.toExponential(1) : String(+x.toPrecision(3)));
  const told = groups.map((group) =>
    Object.entries(group).map(([name, dropped]) => {
      const w = weight(name, dropped, now);
      return `${name} ${w === 0 ? "dropped" : small(w)}`;
    }).join(", "));
  const text = `μ = ${small(mu)}, π_k = ${small(recomputed)}, π = ${small(prob(now))}. Weights: ${told.join("; ")}.`;
  return { text, panels };
}
