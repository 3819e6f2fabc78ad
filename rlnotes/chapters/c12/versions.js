// Two right answers in a row pay 1. An old version begins a share of the trajectories and is left with chance sigma a step.
// Corollary 5.3 of source 000, and the form of GePPO, for an update of the current version, which is right half the time.
export function compute({ update, behind, share, sigma, gamma }) {
  const current = 0.5, old = current - behind, away = 1 - gamma;
  const largest = Math.max(current, 1 - current) * (1 + gamma * current);
  function at(x, chance) {
    const p = current + x, mass = (share * away) / (1 - gamma * (1 - chance));
    const versions = [
      { q: old, d: mass, right: gamma * mass * old * (1 - chance), ahead: (1 - chance) * old + chance * current },
      { q: current, d: 1 - mass, right: gamma * (mass * old * chance + (1 - mass) * current), ahead: current },
    ];
    const sum = (f) => versions.reduce((total, v) => total + f(v), 0);
    const gain = Math.max(...versions.map((v) => Math.abs(p - v.q) * (1 + gamma * v.ahead)));
    const stale = mass * Math.abs(current - old), coefficient = (2 * gamma) / (away * away);
    const L = sum((v) => (p - v.q) * (v.right + gamma * v.d * v.ahead)) / away;
    const U = coefficient * gain * Math.abs(x), S = coefficient * gain * stale + (2 * largest * stale) / away;
    const own = ((p - current) * (sum((v) => v.right) + gamma * current)) / away;
    const penalty = coefficient * Math.abs(x) * (1 + gamma * current) * sum((v) => v.d * Math.abs(p - v.q));
    return { truth: (gamma * (p * p - current * current)) / away, L, U, S, split: L - U - S, geppo: own - penalty, penalty, stale, mass };
  }
  const updates = Array.from({ length: 41 }, (_, i) => (i - 20) / 100), sigmas = Array.from({ length: 21 }, (_, i) => i / 20);
  const over = updates.map((x) => at(x, sigma)), along = sigmas.map((s) => at(update, s)), now = at(update, sigma);
  const curve = (label, xs, rows, key) => ({ label, xs, ys: rows.map((row) => row[key]) });
  const signed = (x) => (Math.abs(x) < 5e-5 ? "0" : (x < 0 ? "−" : "+") + Math.abs(x).toFixed(4));
  const verdict = now.geppo > 0 && now.split > 0 ? "Both promise a gain." : now.geppo > 0 ? "Only Theorem 12.13 promises a gain." :
    now.split > 0 ? "Only Corollary 12.12 promises a gain." : "Neither promises a gain.";
  return {
    text: `The old version has ${now.mass.toFixed(3)} of the discounted steps; staleness S is ${now.stale.toFixed(4)}. ` +
      `True change ${signed(now.truth)}, surrogate ${signed(now.L)}. ` +
      `Promised at least: ${signed(now.split)} by Corollary 12.12, ${signed(now.geppo)} by Theorem 12.13. ${verdict}`,
    panels: [
      { curves: [curve("true", updates, over, "truth"), curve("L", updates, over, "L"),
                 curve("by 12.12", updates, over, "split"), curve("by 12.13", updates, over, "geppo")],
        points: ["truth", "L", "split", "geppo"].map((key, i) => ({ x: update, y: now[key], curve: i })) },
      { curves: [curve("C₁ U", sigmas, along, "U"), curve("C₂ S", sigmas, along, "S"), curve("of 12.13", sigmas, along, "penalty")],
        points: ["U", "S", "penalty"].map((key, i) => ({ x: sigma, y: now[key], curve: i })) },
    ],
  };
}
