// The gates of PPO, SAPO, CISPO and GSPO over the ratio, and the push r A gate of a token with |A| = 1.
export function compute({ sign, ratio, epsilon, tau }) {
  const advantage = sign > 0 ? 1 : -1;
  const clip = (low, high) => (r) => ((advantage > 0 && r > 1 + high) || (advantage < 0 && r < 1 - low) ? 0 : 1);
  const gates = [
    ["PPO", clip(epsilon, epsilon)],
    ["SAPO", (r) => Math.cosh((tau / 2) * (r - 1)) ** -2], // sech squared
    ["CISPO", (r) => Math.min(r, 3) / r],
    ["GSPO", clip(3e-4, 4e-4)],
  ];
  const xs = Array.from({ length: 128 }, (_, i) => (i + 1) / 32);
  const panel = (of) => ({
    curves: gates.map(([label, gate]) => ({ label, xs, ys: xs.map((r) => of(gate, r)) })),
    points: gates.map(([, gate], i) => ({ x: ratio, y: of(gate, ratio), curve: i })),
  });
  const number = (x) => (x !== 0 && Math.abs(x) < 0.005 ? x.toExponential(1) : String(+x.toFixed(2)));
  const said = gates.map(([name, gate]) => `${name} ${number(ratio * advantage * gate(ratio))}`).join(", ");
  const way = (ratio - 1) * advantage;
  const moved = way > 0 ? "moved the way its advantage asks" : way < 0 ? "moved the wrong way" : "not moved";
  return {
    text: `A token with A = ${advantage} and ratio ${number(ratio)} has ${moved}. Its push: ${said}.`,
    panels: [panel((gate, r) => gate(r)), panel((gate, r) => r * advantage * gate(r))],
  };
}
