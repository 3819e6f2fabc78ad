// Example 4.1.1 of source 002: surrogate, true return and distribution shift for a step of any size, and visits to the room.
export function compute({ step, eta, eta2, damage, gamma }) {
  const value = 1 - eta2 * (1 + damage);
  const door = (a) => (1 - a) * eta + a, slip = (a) => (1 - a) * eta2 + a;
  const surrogate = (a) => a * gamma * ((1 - eta) * value - eta * (1 + damage) * (1 - eta2));
  const truth = (a) => gamma * (door(a) * (1 - slip(a) * (1 + damage)) - eta * value);
  const shift = (a) => truth(a) - surrogate(a);
  const room = (a) => (1 - gamma) * gamma * door(a), power = (x) => Math.log10(x);
  const xs = Array.from({ length: 51 }, (_, i) => i / 50);
  const L = surrogate(step), J = truth(step);
  const verdict = L > 0 && J < 0 ? "The surrogate praises a step that loses." :
    L < 0 && J > 0 ? "The surrogate condemns a step that gains." :
    L > 0 ? "Both gain." : step === 0 ? "Nothing has changed yet." : "Neither gains.";
  const signed = (x) => (x < 0 ? "−" : "+") + Math.abs(x).toPrecision(3);
  return {
    text: `Surrogate ${signed(L)}, distribution shift ${signed(J - L)}, together the true change ${signed(J)}. ` +
      `The room gets ${room(step).toPrecision(3)} of the visits, and had ${room(0).toPrecision(3)}. ${verdict}`,
    panels: [
      { curves: [{ label: "surrogate", xs, ys: xs.map(surrogate) }, { label: "true change", xs, ys: xs.map(truth) },
                 { label: "DSP", xs, ys: xs.map(shift) }],
        points: [{ x: step, y: L, curve: 0 }, { x: step, y: J, curve: 1 }, { x: step, y: J - L, curve: 2 }] },
      { curves: [{ label: "room, old", xs, ys: xs.map(() => power(room(0))) },
                 { label: "room, new", xs, ys: xs.map((a) => power(room(a))) },
                 { label: "start", xs, ys: xs.map(() => power(1 - gamma)) }],
        points: [{ x: step, y: power(room(0)), curve: 0 }, { x: step, y: power(room(step)), curve: 1 },
                 { x: step, y: power(1 - gamma), curve: 2 }] },
    ],
  };
}
