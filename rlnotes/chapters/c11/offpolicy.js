// One logit, T tokens, each a slip with probability p under mu and q under pi: bias, variance and progress over the cap C.
const KINDS = ["clean", "share", "odd"];
const WORDS = ["no slip at all", "share of tokens without a slip", "an odd number of slips"];

export function compute({ reward, horizon, shift, cap, step }) {
  const kind = KINDS[Math.round(reward) - 1], T = horizon, p = 0.1, q = p + shift;
  const J = (x) => kind === "clean" ? (1 - x) ** T : kind === "share" ? 1 - x : (1 - (1 - 2 * x) ** T) / 2;
  const slope = (x) => kind === "clean" ? -T * (1 - x) ** (T - 1) : kind === "share" ? -1 : T * (1 - 2 * x) ** (T - 1);
  const truth = q * (1 - q) * slope(q);
  const k = Array.from({ length: T + 1 }, (_, i) => i);
  const R = k.map((n) => (kind === "clean" ? Number(n === 0) : kind === "share" ? 1 - n / T : n % 2) - J(p));
  const pmf = (x) => {
    let choose = 1;
    return k.map((n) => {
      const found = choose * x ** n * (1 - x) ** (T - n);
      choose = choose * (T - n) / (n + 1);
      return found;
    });
  };
  const mu = pmf(p), pi = pmf(q), w = k.map((n) => (q / p) ** n * ((1 - q) / (1 - p)) ** (T - n));
  const mean = (P, f) => P.reduce((sum, prob, n) => sum + prob * f[n], 0);
  const study = (P, g) => {
    const m = mean(P, g), logit = Math.log(q / (1 - q));
    const after = g.map((x) => J(1 / (1 + Math.exp(-logit - step * x))) - J(q));
    return { bias2: (m - truth) ** 2, variance: mean(P, g.map((x) => (x - m) ** 2)), progress: mean(P, after) };
  };
  const seq = (C) => study(mu, k.map((n) => R[n] * Math.min(w[n], C) * (n - T * q)));
  const tok = study(mu, k.map((n) => R[n] * (n * q / p * (1 - q) - (T - n) * (1 - q) / (1 - p) * q)));
  const fresh = study(pi, k.map((n) => (R[n] + J(p) - J(q)) * (n - T * q)));
  const log = (x) => Math.log10(Math.max(x, 1e-8));
  const xs = Array.from({ length: 33 }, (_, i) => (i - 8) / 8);
  const along = xs.map((x) => seq(10 ** x)), here = seq(10 ** cap);
  const flat = (y) => xs.map(() => y);
  const s = (x) => x.toPrecision(2);
  const best = along.reduce((a, b, i) => b.progress > along[a].progress ? i : a, 0);
  const wrong = (slope(p) * slope(q) < 0) ? " Token ratios point the wrong way." : "";
  return {
    text: `Reward: ${WORDS[Math.round(reward) - 1]}. True gradient ${s(truth)}; of token ratios on average ${s(q * (1 - q) * slope(p))}.` +
      `${wrong} At C = ${s(10 ** cap)}: bias² ${s(here.bias2)}, variance ${s(here.variance)}, expected progress ${s(here.progress)} ` +
      `(token ratios ${s(tok.progress)}). Best C for this step: about ${s(10 ** xs[best])}.`,
    panels: [
      { curves: [{ label: "bias²", xs, ys: along.map((a) => log(a.bias2)) },
                 { label: "variance", xs, ys: along.map((a) => log(a.variance)) },
                 { label: "tok. bias²", xs, ys: flat(log(tok.bias2)) },
                 { label: "tok. var.", xs, ys: flat(log(tok.variance)) }],
        points: [{ x: cap, y: log(here.bias2), curve: 0 }, { x: cap, y: log(here.variance), curve: 1 },
                 { x: cap, y: log(tok.bias2), curve: 2 }, { x: cap, y: log(tok.variance), curve: 3 }] },
      { curves: [{ label: "Seq-TIS", xs, ys: along.map((a) => a.progress) },
                 { label: "token", xs, ys: flat(tok.progress) },
                 { label: "fresh", xs, ys: flat(fresh.progress) }],
        points: [{ x: cap, y: here.progress, curve: 0 }, { x: cap, y: tok.progress, curve: 1 }, { x: cap, y: fresh.progress, curve: 2 }] },
    ],
  };
}
