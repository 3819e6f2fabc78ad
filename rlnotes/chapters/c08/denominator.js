// One group of eight under three denominators: the push on a token of a wrong response, and what the loss reads.
export function compute({ right, short, long }) {
  const size = 8, limit = 40, wrong = size - right, share = right / size;
  const lengths = Array.from({ length: limit }, (_, i) => i + 1);
  const tokens = (length) => right * short + wrong * length;
  const weight = { response: (length) => 1 / length, constant: () => 1 / limit, token: (length) => size / tokens(length) };
  const balance = (length) => right * (1 - share) * (short - length);  // sum over tokens of the advantage
  const loss = { response: () => 0, constant: (length) => -balance(length) / (size * limit), token: (length) => -balance(length) / tokens(length) };
  const labels = [["response", "mean per response"], ["constant", "constant"], ["token", "token mean"]];
  const panel = (value) => ({
    curves: labels.map(([name, label]) => ({ label, xs: lengths, ys: lengths.map((length) => value(name)(length)) })),
    points: labels.map(([name], curve) => ({ x: long, y: value(name)(long), curve })),
  });
  const push = (name) => (length) => -share * weight[name](length);
  const ratio = long / short;
  return {
    text: `Advantages: ${(1 - share).toFixed(3)} for right responses, ${(-share).toFixed(3)} for wrong ones. ` +
      `With the mean per response a token of a right response weighs ${ratio.toPrecision(3)} times as much as one of a wrong response; with the others, as much. ` +
      `The losses read 0, ${loss.constant(long).toFixed(3)} and ${loss.token(long).toFixed(3)}.`,
    panels: [panel(push), panel((name) => loss[name])],
  };
}
