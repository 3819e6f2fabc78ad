function normal(z) { // the distribution function of a standard Gaussian, to about 15 digits
  const x = Math.abs(z);
  if (x > 38) return z > 0 ? 1 : 0;
  const density = Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
  let tail;
  if (x < 3) { // a series for the middle
    let term = x, sum = x;
    for (let k = 1; k < 100; k++) { term *= x * x / (2 * k + 1); sum += term; }
    tail = 0.5 - density * sum;
  } else { // a continued fraction for the tail
    let fraction = 0;
    for (let k = 60; k > 0; k--) fraction = k / (x + fraction);
    tail = density / (x + fraction);
  }
  return z > 0 ? 1 - tail : tail;
}
