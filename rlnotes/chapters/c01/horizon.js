// Effective samples of a whole response, n / (1 + chi2)^T, over the horizon; TV and chi2 of one token, over mu's probability.
export function compute({ shift, rare, horizon, samples }) {
  const chi2 = (p) => (shift * shift) / p + (shift * shift) / (1 - p);
  const left = (T) => Math.log10(samples / (1 + chi2(rare)) ** T);
  const Ts = Array.from({ length: 101 }, (_, i) => i);
  const ps = Array.from({ length: 100 }, (_, i) => (i + 1) / 200);
  const size = samples / (1 + chi2(rare)) ** horizon;
  const verdict = size < 1 ? "Less than one response is left: the estimate is noise." :
    size < samples / 2 ? "More than half of the work of sampling is lost." : "The old responses still serve.";
  return {
    text: `Per token: TV ${shift.toPrecision(2)}, χ² ${chi2(rare).toPrecision(3)}. After ${horizon} tokens ${samples} responses ` +
      `are worth ${size.toPrecision(3)}. ${verdict}`,
    panels: [
      { curves: [{ label: "whole response", xs: Ts, ys: Ts.map(left) }, { label: "one response", xs: Ts, ys: Ts.map(() => 0) }],
        points: [{ x: horizon, y: left(horizon), curve: 0 }, { x: horizon, y: 0, curve: 1 }] },
      { curves: [{ label: "χ² of a token", xs: ps, ys: ps.map((p) => Math.log10(chi2(p))) },
                 { label: "TV of a token", xs: ps, ys: ps.map(() => Math.log10(shift)) }],
        points: [{ x: rare, y: Math.log10(chi2(rare)), curve: 0 }, { x: rare, y: Math.log10(shift), curve: 1 }] },
    ],
  };
}
