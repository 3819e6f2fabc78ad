// Error bounds of a response over its horizon, and the most that a surrogate less a bound can be, over the largest KL.
export function compute({ horizon, kl, share }) {
  const part = 10 ** share;
  const bounds = (T, D) => {
    const whole = part * T * D;
    return [T * (T - 1) * D, (4 / 3) * T ** 1.5 * D, 2 * T * Math.sqrt(D) * Math.sqrt(whole), whole];
  };
  const names = ["chain", "Pinsker-m.", "mixed", "D_seq"];
  const highest = (whole) => Math.min(Math.sqrt(whole / 2), Math.sqrt(-Math.expm1(-whole))) + whole;
  const certified = (T, D, i) => highest(bounds(T, D)[3]) - bounds(T, D)[i];
  const xs = Array.from({ length: 53 }, (_, i) => 1 + i / 4);
  const ys = Array.from({ length: 91 }, (_, i) => i / 10 - 10);
  const D = 10 ** kl, T = 2 ** horizon;
  const left = (x, i) => Math.log10(bounds(2 ** x, D)[i]);
  const right = (y, i) => Math.max(certified(T, 10 ** y, i), -1);
  const [chain, marginal, mixed, whole] = bounds(T, D);
  const text = (x) => String(+x.toPrecision(3));
  const most = highest(whole), least = Math.min(marginal, mixed);
  const verdict = least >= most
    ? `L is at most ${text(most)}, whatever the rewards: the certificate of 001 cannot fire.`
    : `L may be up to ${text(most)}: the certificate of 001 fires if L is above ${text(least)}.`;
  return {
    text: `T = ${T}, D_max = ${text(D)}: chain ${text(chain)}, Pinsker-marginal ${text(marginal)}, mixed ${text(mixed)}, ` +
      `D_seq ${text(whole)}. ${verdict} With D_seq as the bound it fires if L is above ${text(whole)}.`,
    panels: [
      { curves: names.map((label, i) => ({ label, xs, ys: xs.map((x) => left(x, i)) })),
        points: names.map((_, i) => ({ x: horizon, y: left(horizon, i), curve: i })) },
      { curves: names.map((label, i) => ({ label, xs: ys, ys: ys.map((y) => right(y, i)) })),
        points: names.map((_, i) => ({ x: kl, y: right(kl, i), curve: i })) },
    ],
  };
}
