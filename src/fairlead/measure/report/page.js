// The report's behaviour: draws the plots from the specs in the page and redraws them as the reader chooses.
// Everything it shows was put together by Python; nothing is loaded, nothing is stored.
"use strict";

const report = JSON.parse(document.getElementById("report").textContent);
const main = document.querySelector("main");
const figures = [...document.querySelectorAll("figure[data-plot]")];
const wholes = figures.filter((figure) => figure.dataset.plot in report.whole); // of all labels together
const boxes = [...document.querySelectorAll(".policies input")];
const labelChooser = document.getElementById("label");
const policyChooser = document.getElementById("chosen");
const views = new Map(); // plot name -> what vegaEmbed returned
const touched = { shown: false, chosen: false }; // until then, each label shows its own best policies
let drawing = Promise.resolve();
let turns = 0; // under way or waiting

// Vega warns of an axis without data. When a reader has switched everything off, that is meant.
const [QUIET, WARN] = [1, 2];

const options = {
  mode: "vega-lite",
  renderer: "svg",
  actions: false,
  defaultStyle: false,
  ast: true, // expressions are interpreted, so the page can forbid eval
  config: { ...report.config, font: "system-ui, sans-serif" },
  tooltip: { theme: "report", disableDefaultStyle: true },
};

const label = () => report.labels[Number(labelChooser.value)];
const shown = () => boxes.filter((box) => box.checked).map((box) => box.value);

function plotOf(figure) {
  const name = figure.dataset.plot;
  return report.whole[name] ?? label().plots[name];
}

/** The values of the params of a plot, as they are chosen now; print and text alternative follow them. */
function choices(figure) {
  const found = { shown: shown(), chosen: policyChooser?.value };
  const measure = figure.querySelector("select.measure");
  for (const chooser of figure.querySelectorAll(".chooser")) {
    chooser.dataset.value = chooser.querySelector("select").value; // print shows it in the chooser's place
  }
  const { finding, findings } = plotOf(figure);
  // On the box: Vega puts a label of its own on the element that it gets.
  const own = figure.querySelector(".chooser select")?.value;
  figure.querySelector(".plot").setAttribute("aria-label", findings[own] ?? finding);
  if (measure) found.measure = measure.value;
  return found;
}

async function draw(figure) {
  const name = figure.dataset.plot;
  const plot = plotOf(figure);
  views.get(name)?.finalize();
  views.delete(name);
  figure.hidden = !plot;
  if (!plot) return;
  const box = figure.querySelector(".plot");
  figure.querySelector(".caption").textContent = plot.caption;
  figure.querySelector(".notes").replaceChildren(...plot.notes.map(listItem));
  box.hidden = !plot.spec;
  figure.querySelector(".failed").hidden = true;
  box.style.minHeight = `${plot.height}px`;
  for (const chooser of figure.querySelectorAll(".chooser")) chooser.hidden = !plot.spec;
  if (!plot.spec) return;
  const chosen = choices(figure);
  const params = plot.spec.params.map((p) => (p.name in chosen ? { ...p, value: chosen[p.name] } : p));
  views.set(name, await vegaEmbed(box.firstElementChild, { ...plot.spec, params }, { ...options, logLevel: touched.shown ? QUIET : WARN }));
}

function listItem(text) {
  const item = document.createElement("li");
  item.textContent = text;
  return item;
}

/** Pass the choices on to what is drawn. */
async function pass(figure) {
  const made = views.get(figure.dataset.plot);
  if (!made) return;
  const chosen = choices(figure);
  made.view.logLevel(QUIET);
  for (const { name } of plotOf(figure).spec.params) {
    if (name in chosen) made.view.signal(name, chosen[name]);
  }
  await made.view.runAsync();
}

/** Do this with these figures after what is being drawn, so that two choices in a row never mix. */
function inTurn(wanted, work) {
  turns += 1;
  main.setAttribute("aria-busy", "true");
  drawing = drawing.then(async () => {
    for (const figure of wanted) await work(figure).catch((error) => fail(figure, error));
    turns -= 1;
    if (turns === 0) main.setAttribute("aria-busy", "false");
  });
}

/** One plot that can't be drawn says so; the others go on. */
function fail(figure, error) {
  console.error(`${figure.dataset.plot}:`, error);
  views.delete(figure.dataset.plot);
  figure.querySelector(".plot").hidden = true;
  figure.querySelector(".failed").hidden = false;
}

const redraw = (wanted) => inTurn(wanted, draw);
const update = () => inTurn(figures, pass);

function check(names) {
  for (const box of boxes) box.checked = names.includes(box.value);
}

/** Show a label: its tables, its policies, its plots. */
function chooseLabel() {
  const { highlighted = [], ranking = [] } = label(); // a page without policies has none
  for (const block of document.querySelectorAll("[data-label]")) {
    block.hidden = block.dataset.label !== labelChooser.value;
  }
  for (const box of boxes) box.disabled = !ranking.includes(box.value) && !wholes.length;
  if (!touched.shown) check(highlighted);
  if (policyChooser) choosePolicy(ranking);
  redraw(figures.filter((figure) => !wholes.includes(figure)));
}

function choosePolicy(ranking) {
  const before = policyChooser.value;
  policyChooser.replaceChildren(...ranking.map((name) => new Option(name)));
  if (touched.chosen && ranking.includes(before)) policyChooser.value = before;
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  document.getElementById("theme").textContent = name === "dark" ? "Light theme" : "Dark theme";
}

const PRESETS = { best: () => label().highlighted, all: () => boxes.map((box) => box.value), none: () => [] };

function start() {
  labelChooser.addEventListener("change", chooseLabel);
  policyChooser?.addEventListener("change", () => {
    touched.chosen = true;
    update();
  });
  for (const select of document.querySelectorAll("select.measure")) select.addEventListener("change", update);
  for (const box of boxes) {
    box.addEventListener("change", () => {
      touched.shown = true;
      update();
    });
  }
  for (const button of document.querySelectorAll("[data-preset]")) {
    button.addEventListener("click", () => {
      touched.shown = button.dataset.preset !== "best";
      check(PRESETS[button.dataset.preset]());
      update();
    });
  }
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(prefersDark.matches ? "dark" : "light");
  prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  });
  if (matchMedia("(max-width: 60rem)").matches) document.querySelector("#controls details").open = false;
  openForPrint();
  redraw(wholes);
  chooseLabel();
}

/** On paper everything is open; afterwards it is as it was. */
function openForPrint() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
}

start();
