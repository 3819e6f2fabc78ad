// One group of eight under three denominators: the push of a wrong token beside a right one, and of a whole response.
export function compute({ right, short, long }) {
  const size = 8, shortest = 6, limit = 40;
  const lengths = Array.from({ length: limit - shortest + 1 }, (_, i) => shortest + i);
  const even = right / (size - right);  // the wrong advantage by the right one
  const byLength = (length) => even * short / length;
  const grows = (length) => even * length / short;
  const flat = () => even;
  const labels = ["response mean", "constant", "token mean"];
  const panel = (functions) => ({
    curves: labels.map((label, i) => ({ label, xs: lengths, ys: lengths.map(functions[i]) })),
    points: functions.map((f, curve) => ({ x: long, y: f(long), curve })),
  });
  return {
    text: `A token of a wrong response is pushed down ${byLength(long).toPrecision(2)} times as hard as one of a right response is pushed up, ` +
      `if each response is divided by its own length; with the other two ${even.toPrecision(2)} times. ` +
      `For a whole response it is ${even.toPrecision(2)} times, and with the other two ${grows(long).toPrecision(2)} times.`,
    panels: [panel([byLength, flat, flat]), panel([flat, grows, grows])],
  };
}
