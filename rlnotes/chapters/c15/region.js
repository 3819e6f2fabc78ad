// One sampled token of mu and pi: every divergence over pi, and which mask keeps the token's gradient.
export function compute({ sign, before, now, size, shuffle, k }) {
  const low = 0.2, high = 0.28, limit = 0.15;
  const zipf = Array.from({ length: size - 1 }, (_, i) => 1 / (i + 1));
  const total = zipf.reduce((a, b) => a + b, 0);
  const row = (odds, turned) => {
    const own = 1 / (1 + 10 ** -odds);
    return [own, ...zipf.map((z, i) => ((1 - own) * ((1 - turned) * z + turned * zipf[size - 2 - i])) / total)];
  };
  const mu = row(before, 0);
  const order = mu.map((_, i) => i).sort((a, b) => mu[b] - mu[a] || a - b);
  const kept = new Set([0, ...order.slice(0, Math.min(k, size))]);
  const halfSum = (pi, tokens) => tokens.reduce((sum, a) => sum + Math.abs(mu[a] - pi[a]), 0) / 2;
  const all = mu.map((_, i) => i);
  const measures = {
    "full TV": (pi) => halfSum(pi, all),
    "top-K TV": (pi) => {
      const rest = all.filter((a) => !kept.has(a)).reduce((sum, a) => sum + mu[a] - pi[a], 0);
      return halfSum(pi, [...kept]) + Math.abs(rest) / 2;
    },
    "binary TV": (pi) => Math.abs(mu[0] - pi[0]),
    "|r - 1| / 2, cut off at 1": (pi) => Math.min(Math.abs(pi[0] / mu[0] - 1) / 2, 1),
  };
  const names = Object.keys(measures);
  const clipped = (odds) => {
    const r = row(odds, shuffle)[0] / mu[0];
    return sign > 0 ? r > 1 + high : r < 1 - low;
  };
  const away = (odds) => (sign > 0 ? odds > before : odds < before);
  const dppo = (name) => (odds) => away(odds) && measures[name](row(odds, shuffle)) > limit;
  const lanes = { "clip of r": clipped };
  for (const name of names.slice(0, 3).reverse()) lanes[`DPPO, ${name}`] = dppo(name);
  const xs = Array.from({ length: 61 }, (_, i) => (i - 40) / 10);
  const drawn = (entries) => ({
    curves: entries.map(([label, y]) => ({ label, xs, ys: xs.map(y) })),
    points: entries.map(([, y], curve) => ({ x: now, y: y(now), curve })),
  });
  const height = ([name, cut], i) => [name, (odds) => i + (cut(odds) ? 0.1 : 0.7)];
  const small = (x) => (x !== 0 && Math.abs(x) < 0.001 ? x.toExponential(1) : String(+x.toPrecision(3)));
  const pi = row(now, shuffle);
  const values = names.slice(0, 3).map((name) => `${name} ${small(measures[name](pi))}`);
  const said = Object.entries(lanes).map(([name, cut]) => `${name} ${cut(now) ? "drops" : "keeps"} it`);
  const text = `μ = ${small(mu[0])}, π = ${small(pi[0])}, ratio ${small(pi[0] / mu[0])}. ${values.join(", ")}. ${said.join("; ")}.`;
  return { text, panels: [drawn(names.map((name) => [name, (odds) => measures[name](row(odds, shuffle))])),
                          drawn(Object.entries(lanes).map(height))] };
}
