// 27 responses of three tokens: what a step along four estimates keeps of the guaranteed gain, over the batch and over the cap.
export function compute({ size, cap, spread }) {
  const softmax = (row) => {
    const e = row.map(Math.exp), total = e.reduce((a, b) => a + b);
    return e.map((x) => x / total);
  };
  const pi = MODEL.logits.map(softmax);
  const mu = MODEL.logits.map((row, i) => softmax(row.map((z, j) => z + spread * MODEL.more[i][j])));
  const responses = MODEL.rewards.map((R, i) => {
    const y = [Math.floor(i / 9), Math.floor(i / 3) % 3, i % 3];
    const contexts = [0, 1 + y[0], 4 + 3 * y[0] + y[1]];  // rows of the prefixes
    const along = (policy) => contexts.map((c, t) => policy[c][y[t]]);
    const times = (numbers) => numbers.reduce((a, b) => a * b, 1);
    const r = along(pi).map((p, t) => p / along(mu)[t]);
    return { R, y, contexts, r, w: times(r), mu: times(along(mu)), pi: times(along(pi)) };
  });
  const b = responses.reduce((sum, one) => sum + one.mu * one.R, 0);
  const mean = (prob, weights) => {  // of weight times score, by the 39 logits
    const g = pi.map(() => [0, 0, 0]);
    responses.forEach((one) => one.contexts.forEach((c, t) => {
      const amount = prob(one) * weights(one)[t];
      pi[c].forEach((p, a) => { g[c][a] += amount * (Number(a === one.y[t]) - p); });
    }));
    return g.flat();
  };
  const dot = (g, h) => g.reduce((sum, x, i) => sum + x * h[i], 0);
  const truth = mean((one) => one.pi, (one) => one.r.map(() => one.R));
  const study = (weight) => {
    const weights = (one) => one.r.map((r) => (one.R - b) * weight(one, r));
    const g = mean((one) => one.mu, weights), squared = dot(g, g);
    const second = responses.reduce((sum, one) => sum + one.mu * one.contexts.reduce((part, c, t) => {
      const length = 1 - 2 * pi[c][one.y[t]] + dot(pi[c], pi[c]);
      return part + weights(one)[t] ** 2 * length;
    }, 0), 0);
    const direction = Math.max(0, dot(g, truth)) ** 2 / (dot(truth, truth) * squared);
    return (n) => {
      const noise = squared / (squared + (second - squared) / n);
      return { share: direction * noise, direction, noise };
    };
  };
  const weights = [["uncorrected", () => 1], ["token", (one, r) => r], ["response", (one) => one.w],
    ["with a cap", (one) => Math.min(one.w, 10 ** cap)]];
  const found = weights.map(([label, weight]) => ({ label, at: study(weight) }));
  const sizes = Array.from({ length: 17 }, (_, i) => i / 4), n = 10 ** size;
  const caps = Array.from({ length: 31 }, (_, i) => (i - 10) / 10);
  const capped = caps.map((c) => study((one) => Math.min(one.w, 10 ** c))(n));
  const parts = [["kept", "share"], ["left by direction", "direction"], ["left by noise", "noise"]];
  const best = capped.reduce((top, one, i) => one.share > capped[top].share ? i : top, 0);
  const s = (x) => x.toPrecision(2);
  const said = found.map(({ label, at }) => `${label} ${s(at(n).share)} (left by direction ${s(at(n).direction)} × by noise ${s(at(n).noise)})`);
  return {
    text: `With ${Math.round(n)} responses a step keeps of the guaranteed gain: ${said.join("; ")}. ` +
      `The best cap here is about ${s(10 ** caps[best])}; it keeps ${s(capped[best].share)}.`,
    panels: [
      { curves: found.map(({ label, at }) => ({ label, xs: sizes, ys: sizes.map((x) => at(10 ** x).share) })),
        points: found.map(({ at }, curve) => ({ x: size, y: at(n).share, curve })) },
      { curves: parts.map(([label, key]) => ({ label, xs: caps, ys: capped.map((one) => one[key]) })),
        points: parts.map(([, key], curve) => ({ x: cap, y: found[3].at(n)[key], curve })) },
    ],
  };
}
