// Draws an explorer: sliders, curves, a sentence. It runs in JupyterLab through anywidget and on a bare page alike.
// The code below this file in the same module defines compute(values); SPEC comes from Python. Of an exact model compute
// knows only the picture at the start: the others come from the kernel.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 430, HEIGHT = 234, LEFT = 52, RIGHT = 10, TOP = 10, BOTTOM = 38;
const DASHES = ["", "7 4", "8 3 2 3", "2 3", "7 2"];

const STYLE = `
.rlnotes-explorer { --c0: #0072B2; --c1: #B84A00; --c2: #007A59; --c3: #A0467A; --c4: #555555; --grid: #88888844; --wrong: #c62828;
  font-family: var(--jp-ui-font-family, system-ui, sans-serif); font-size: 14px; max-width: 900px; }
html[data-theme=dark] .rlnotes-explorer, [data-jp-theme-light=false] .rlnotes-explorer {
  --c0: #56B4E9; --c1: #E69F00; --c2: #2FD3A5; --c3: #E79CC2; --c4: #CCCCCC; --grid: #aaaaaa44; --wrong: #ff8a80; color: #eee; }
.rlnotes-explorer .controls { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(250px, 100%), 1fr)); gap: 4px 20px; }
.rlnotes-explorer label { display: grid; grid-template-columns: 1fr auto; align-items: center; }
.rlnotes-explorer input { grid-column: 1 / 3; width: 100%; margin: 2px 0; }
.rlnotes-explorer output { font-variant-numeric: tabular-nums; }
.rlnotes-explorer .drawing { width: 100%; max-width: 430px; height: auto; overflow: visible; }
.rlnotes-explorer .frame { overflow: hidden; }
.rlnotes-explorer .panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 8px; }
.rlnotes-explorer .key { display: flex; flex-wrap: wrap; gap: 0 14px; font-size: 12px; }
.rlnotes-explorer .key svg { width: 26px; height: 8px; margin-right: 4px; }
.rlnotes-explorer text { fill: currentColor; font-size: 12px; }
.rlnotes-explorer .said { min-height: 1.5em; margin: 4px 0; }
.rlnotes-explorer .wrong { color: var(--wrong); }
.rlnotes-explorer path { fill: none; stroke-width: 2; }`;

function svg(tag, attributes, parent, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function html(tag, attributes, parent, text) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

// About five round numbers between two ends.
function ticks(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(+(i * step).toPrecision(10));
  return found;
}

function shown(value) {
  return Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(1) : String(+value.toPrecision(4));
}

// Where the axes begin: far enough right for the widest tick beside the rotated label, about 7.5 pixels a character.
// Estimated, not measured: what is not yet on the page has no width.
function leftOf(labels) {
  return Math.max(LEFT, 22 + 7.5 * Math.max(...labels.map((label) => label.length)));
}

// A panel: axes drawn anew with each move, because the range may follow the curves. The key wraps, so that no name hides
// another.
function draw(panel, data, key, parent) {
  key.replaceChildren();
  parent.replaceChildren();
  const [x0, x1] = data.x ?? panel.x, inside = data.curves.flatMap((c) => c.ys).filter(Number.isFinite);
  const [y0, y1] = data.y ?? panel.y ?? [Math.min(...inside), Math.max(...inside)];
  const left = leftOf(ticks(y0, y1).map(shown)), width = WIDTH - left - RIGHT, height = HEIGHT - TOP - BOTTOM;
  const px = (x) => left + ((x - x0) / (x1 - x0)) * width;
  const py = (y) => HEIGHT - BOTTOM - ((y - y0) / (y1 - y0)) * height;
  for (const x of panel.ticks ?? ticks(x0, x1)) {
    svg("line", { x1: px(x), x2: px(x), y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--grid)" }, parent);
    svg("text", { x: px(x), y: HEIGHT - BOTTOM + 14, "text-anchor": "middle" }, parent, shown(x));
  }
  for (const y of ticks(y0, y1)) {
    svg("line", { x1: left, x2: WIDTH - RIGHT, y1: py(y), y2: py(y), stroke: "var(--grid)" }, parent);
    svg("text", { x: left - 5, y: py(y) + 4, "text-anchor": "end" }, parent, shown(y));
  }
  svg("text", { x: left + width / 2, y: HEIGHT - 6, "text-anchor": "middle" }, parent, panel.xlabel);
  svg("text", { x: 12, y: (TOP + HEIGHT - BOTTOM) / 2, "text-anchor": "middle",
    transform: `rotate(-90 12 ${(TOP + HEIGHT - BOTTOM) / 2})` }, parent, panel.ylabel);
  // curves that leave the range are cut at its edge
  const frame = svg("svg", { x: left, y: TOP, width, height, viewBox: `${left} ${TOP} ${width} ${height}`, class: "frame" }, parent);
  data.curves.forEach((curve, i) => {
    const d = curve.xs.map((x, j) => `${j ? "L" : "M"}${px(x).toFixed(2)} ${py(curve.ys[j]).toFixed(2)}`).join("");
    const fill = panel.filled.includes(i) ? `fill: var(--c${i}); fill-opacity: 0.3` : "";
    svg("path", { d, class: "curve", stroke: `var(--c${i})`, "stroke-dasharray": DASHES[i], style: fill }, frame);
    const named = html("span", {}, key);
    svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: `var(--c${i})`, "stroke-width": 2, "stroke-dasharray": DASHES[i] },
      svg("svg", { viewBox: "0 0 26 8" }, named));
    named.append(curve.label);
  });
  for (const point of data.points)
    svg("circle", { cx: px(point.x), cy: py(point.y), r: 5, fill: `var(--c${point.curve})`, stroke: "currentColor" }, frame);
}

// Build the explorer inside `el`, with `found` drawn. `changed` hears of each move; without it nobody computes an exact
// model, and its sliders rest. Returns a function that sets values from outside, and draws what was found for them.
export function mount(el, start, changed, found = compute(start)) {
  const values = Object.fromEntries(SPEC.controls.map((c) => [c.name, start[c.name] ?? c.value]));
  const root = html("div", { class: "rlnotes-explorer", role: "group", "aria-label": SPEC.title }, el);
  html("style", {}, root, STYLE);
  const controls = html("div", { class: "controls" }, root), inputs = {};
  for (const c of SPEC.controls) {
    const label = html("label", {}, controls), name = html("span", {}, label, c.label), out = html("output", {}, label);
    const input = html("input", { type: "range", min: c.min, max: c.max, step: c.step, "aria-label": c.label }, label);
    input.disabled = SPEC.exact && !changed;
    // JupyterLab takes the arrow keys for itself unless they are stopped here
    input.addEventListener("keydown", (event) => event.stopPropagation());
    input.addEventListener("input", () => { values[c.name] = +input.value; show(computed()); changed?.({ ...values }); });
    inputs[c.name] = [input, out];
  }
  const said = html("p", { class: "said", "aria-live": "polite" }, root);
  const panels = html("div", { class: "panels" }, root);
  const drawings = SPEC.panels.map((panel) => {
    const box = html("div", {}, panels);
    html("div", {}, box, panel.title);
    const key = html("div", { class: "key" }, box);
    return [key, svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "drawing", role: "img", "aria-label": panel.title }, box)];
  });
  const computed = () => SPEC.exact ? {} : compute(values); // nothing yet: the kernel computes it
  function show({ text, error, panels = [] }) {
    for (const [name, [input, out]] of Object.entries(inputs)) { input.value = values[name]; out.textContent = shown(values[name]); }
    if (error ?? text) said.textContent = error ?? text;
    said.className = error ? "said wrong" : "said";
    panels.forEach((data, i) => draw(SPEC.panels[i], data, ...drawings[i]));
  }
  show(found);
  return (given, found) => { Object.assign(values, given); show(found ?? computed()); };
}

export default {
  render({ model, el }) {
    const changed = (values) => { model.set("values", values); model.save_changes(); };
    const set = mount(el, model.get("values"), changed, SPEC.exact ? model.get("drawing") : undefined);
    model.on("change:values", () => set(model.get("values")));
    model.on("change:drawing", () => set({}, model.get("drawing")));
  },
};
