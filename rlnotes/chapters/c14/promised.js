// T coins with reward 1 for more ones than zeros; mu is fair, pi moves each coin by s. What is promised of the change.
export function compute({ horizon, step }) {
  const logs = [0];
  for (let n = 1; n <= 2 ** 12; n++) logs.push(logs[n - 1] + Math.log(n));
  function at(T, D) {
    const s = Math.sqrt(-Math.expm1((-2 * D) / T)) / 2, half = T / 2;
    const choose = (k) => logs[T] - logs[k] - logs[T - k];
    const tie = Math.exp(choose(half) - T * Math.log(2)), L = s * T * tie;
    let more = 0;
    for (let k = half + 1; k <= T; k++) more += Math.exp(choose(k) + k * Math.log(0.5 + s) + (T - k) * Math.log(0.5 - s));
    const published = Math.min((4 / 3) * Math.sqrt(T), 2 * Math.sqrt(T)) * D;
    return [more - (1 - tie) / 2, -D / 2 - half * tie * Math.log1p(-2 * s), L - D, L - published];
  }
  const names = ["true change", "mean of R log w", "L − D_seq", "published"], least = -0.3;
  const shown = (T, D) => at(T, D).map((x) => Math.max(x, least));
  const steps = Array.from({ length: 41 }, (_, i) => i / 200), lengths = Array.from({ length: 12 }, (_, i) => i + 1);
  const T = 2 ** horizon, now = at(T, step), drawn = shown(T, step);
  const over = steps.map((D) => shown(T, D)), along = lengths.map((x) => shown(2 ** x, step));
  const panel = (xs, rows, x) => ({
    curves: names.map((label, i) => ({ label, xs, ys: rows.map((row) => row[i]) })),
    points: names.map((_, i) => ({ x, y: drawn[i], curve: i })),
  });
  const say = (x) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(3);
  const fired = names.slice(1).filter((_, i) => now[i + 1] > 0);
  return {
    text: `T = ${T}, a step of D_seq = ${step.toFixed(3)} nats a response: J changes by ${say(now[0])}. Promised: R log w ` +
      `${say(now[1])}, L − D_seq ${say(now[2])}, published ${say(now[3])}. ` +
      (fired.length ? `Above 0: ${fired.join(", ")}.` : "None is above 0."),
    panels: [panel(steps, over, step), panel(lengths, along, horizon)],
  };
}
