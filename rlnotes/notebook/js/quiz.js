// Makes radio buttons of a quiz that stands on the page as choices that open, when its script runs beside them.
(() => {
  const STYLE = `
.rlnotes-quiz { --right: #00694d; --wrong: #a03c00; --line: #88888866; max-width: 46em; line-height: 1.45; }
html[data-theme=dark] .rlnotes-quiz, [data-jp-theme-light=false] .rlnotes-quiz { --right: #2fd3a5; --wrong: #f0a860;
  color-scheme: dark; }
.rlnotes-quiz.rlnotes-quiz ol { list-style: none; margin: 0; padding: 0; }
.rlnotes-quiz form { margin: 0 0 1.2em; }
.rlnotes-quiz fieldset { border: 0; margin: 0; padding: 0; min-width: 0; }
.rlnotes-quiz legend { padding: 0; margin: 0 0 0.3em; font-size: inherit; float: none; width: auto; }
.rlnotes-quiz label { display: grid; grid-template-columns: auto 1fr; gap: 0.6em; align-items: start; padding: 0.25em 0.4em;
  border-radius: 4px; cursor: pointer; }
.rlnotes-quiz label:hover { background: var(--line); }
.rlnotes-quiz input { margin: 0.3em 0 0; width: 1.1em; height: 1.1em; accent-color: currentColor; }
.rlnotes-quiz button { font: inherit; color: inherit; background: none; border: 1px solid currentColor; border-radius: 4px;
  padding: 0.2em 0.9em; margin: 0.3em 0; cursor: pointer; }
.rlnotes-quiz label:focus-within, .rlnotes-quiz button:focus-visible, .rlnotes-quiz summary:focus-visible {
  outline: 2px solid currentColor; outline-offset: 1px; }
.rlnotes-quiz .said { --mark: var(--wrong); }
.rlnotes-quiz .said.right { --mark: var(--right); }
.rlnotes-quiz .said p { margin: 0.3em 0; padding-left: 0.7em; border-left: 4px solid var(--mark); }
.rlnotes-quiz .said details p { border-color: var(--line); }
.rlnotes-quiz .said strong { color: var(--mark); }
.rlnotes-quiz code { overflow-wrap: anywhere; }`;

  const make = (tag, attributes, parent, ...inside) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...inside);
    parent.append(node);
    return node;
  };
  const copies = (node) => Array.from(node.cloneNode(true).childNodes);

  const root = document.currentScript.parentElement;
  make("style", {}, root, STYLE);
  // JupyterLab takes keys for itself unless they are stopped here
  root.addEventListener("keydown", (event) => event.stopPropagation());
  const items = root.querySelectorAll("ol > li"), solved = new Set(), first = new Set(), tried = new Set();

  items.forEach((item, number) => {
    const answers = Array.from(item.querySelectorAll("details"));
    const form = make("form", {}, item), fields = make("fieldset", {}, form); // a form keeps its radio buttons apart
    make("legend", {}, fields, `${number + 1}. `, ...copies(item.querySelector("p")));
    answers.forEach((answer, i) => {
      const label = make("label", {}, fields);
      make("input", { type: "radio", name: "choice", value: i }, label);
      make("span", {}, label, ...copies(answer.querySelector("summary")));
    });
    make("button", { type: "submit" }, form, "Check");
    const said = make("div", { class: "said", "aria-live": "polite" }, form);
    item.replaceChildren(form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      said.replaceChildren();
      const chosen = answers[new FormData(form).get("choice") ?? -1];
      if (!chosen) { make("p", {}, said, "Choose one first."); return; }
      const right = chosen.classList.contains("right");
      said.classList.toggle("right", right);
      make("p", {}, said, ...copies(chosen.querySelector("p")));
      if (right) {
        if (!tried.has(number)) first.add(number);
        solved.add(number);
        const others = make("details", {}, said);
        make("summary", {}, others, "The other choices");
        for (const other of answers.filter((each) => each !== chosen)) {
          const [, ...why] = copies(other.querySelector("p")); // without its "Not this one."
          make("em", {}, make("p", {}, others), ...copies(other.querySelector("summary"))).parentElement.append(...why);
        }
      }
      tried.add(number);
      score.textContent = `${solved.size} of ${items.length} right, ${first.size} at the first try.`;
    });
  });
  const score = make("p", { "aria-live": "polite" }, root);
})();
