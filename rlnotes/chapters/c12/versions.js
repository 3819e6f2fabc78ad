// Two right answers in a row pay 1. An old version begins a share of the trajectories and is left with some chance a step.
// What an update is promised: with the advantages of the data (Corollary 5.3 of source 000), and with the current policy's.
export function compute({ update, behind, share, switch: leave, horizon }) {
  const current = 0.5, old = current - behind, longest = 50;
  function at(x, T) {
    const gamma = 1 - 1 / T, away = 1 - gamma, p = current + x, mass = (share * away) / (1 - gamma * (1 - leave));
    const largest = Math.max(current, 1 - current) * (1 + gamma * current);
    const versions = [
      { q: old, d: mass, right: gamma * mass * old * (1 - leave), ahead: (1 - leave) * old + leave * current },
      { q: current, d: 1 - mass, right: gamma * (mass * old * leave + (1 - mass) * current), ahead: current },
    ];
    const sum = (f) => versions.reduce((total, v) => total + f(v), 0);
    const gain = Math.max(...versions.map((v) => Math.abs(p - v.q) * (1 + gamma * v.ahead)));
    const stale = mass * Math.abs(current - old), coefficient = (2 * gamma) / (away * away);
    const L = sum((v) => (p - v.q) * (v.right + gamma * v.d * v.ahead)) / away;
    const U = coefficient * gain * Math.abs(x), S = coefficient * gain * stale + (2 * largest * stale) / away;
    const own = ((p - current) * (sum((v) => v.right) + gamma * current)) / away;
    const penalty = coefficient * Math.abs(x) * (1 + gamma * current) * sum((v) => v.d * Math.abs(p - v.q));
    const change = (gamma * (p * p - current * current)) / away, best = (gamma * (1 - current * current)) / away;
    return { change, L, U: U / best, S: S / best, split: L - U - S, own: own - penalty, owed: penalty / best, stale, mass };
  }
  const updates = Array.from({ length: 41 }, (_, i) => (i - 20) / 100);
  const lengths = Array.from({ length: longest - 1 }, (_, i) => i + 2);
  const over = updates.map((x) => at(x, horizon)), along = lengths.map((T) => at(update, T)), now = at(update, horizon);
  const curve = (label, xs, rows, key) => ({ label, xs, ys: rows.map((row) => row[key]) });
  const signed = (x) => (Math.abs(x) < 5e-5 ? "0" : (x < 0 ? "−" : "+") + Math.abs(x).toFixed(4));
  const verdict = now.own > 0 && now.split > 0 ? "Both promise a gain." : now.own > 0 ? "Only the second promises a gain." :
    now.split > 0 ? "Only the first promises a gain." : "Neither promises a gain.";
  return {
    text: `The old version has ${now.mass.toFixed(3)} of the steps; staleness S is ${now.stale.toFixed(4)}. ` +
      `True change ${signed(now.change)}, L ${signed(now.L)}. ` +
      `Promised at least: ${signed(now.split)}, and with the current policy's own advantages ${signed(now.own)}. ${verdict}`,
    panels: [
      { curves: [curve("true", updates, over, "change"), curve("L", updates, over, "L"),
                 curve("promised, own A", updates, over, "own"), curve("promised", updates, over, "split")],
        points: ["change", "L", "own", "split"].map((key, i) => ({ x: update, y: now[key], curve: i })) },
      { curves: [curve("U part", lengths, along, "U"), curve("S part", lengths, along, "S"), curve("own A", lengths, along, "owed")],
        points: ["U", "S", "owed"].map((key, i) => ({ x: horizon, y: now[key], curve: i })) },
    ],
  };
}
