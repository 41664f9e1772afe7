// What is chosen stands in the address, so that it can be sent to others and the back button works.

const FILTERS = ["family", "op", "dtype", "problem", "cache", "run"];
const VIEWS = {story: drawStory, why: drawWhy, sizes: drawSizes, roof: drawRoof, compare: drawCompare,
               runs: () => {}};
const FILTERED = {why: FILTERS, sizes: FILTERS.filter((name) => name !== "problem"), roof: FILTERS};
const chosen = {};

const form = byId("filters");

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(chosen)) delete chosen[name];
  for (const [name, value] of asked) chosen[name] = name === "run" ? Number(value) : value;
  if (!Object.hasOwn(VIEWS, chosen.view)) chosen.view = chosen.family ? "why" : "story";
}

// Goes on with what is chosen, but for `changes`.
function go(changes) {
  const to = {...chosen, ...changes};
  for (const name of Object.keys(to)) if (to[name] === "" && name !== "op") delete to[name];
  location.hash = new URLSearchParams(to);
}

// Of the longest ladder that has what is chosen before `filter`, or of its main problem; over size the run
// with the longest ranges.
function preferred(filter, values) {
  const fixed = LADDER.slice(0, FILTERS.indexOf(filter));
  const [name, main] = Object.entries(report.main).find(([name]) =>
      fixed.every((one, i) => chosen[one] === name.split("/")[i]));
  const [family, op, dtype] = name.split("/");
  const wanted = {family, op, dtype, ...main, cache: "cold"}[filter];
  const first = values.includes(wanted) ? wanted : values[0];
  if (filter !== "run" || chosen.view !== "sizes") return first;
  const joined = (run) => sizesOf({...chosen, run})?.ranges.flat().length ?? 0;
  return values.reduce((most, run) => joined(run) > joined(most) ? run : most, first);
}

// Each list offers what the choices before it leave; a choice that is no more gives way.
function fillFilters() {
  const used = FILTERED[chosen.view];
  form.hidden = !used;
  if (!used) return;
  let left = rows;
  for (const filter of FILTERS) {
    const values = unique(left.map((row) => row[filter]));
    if (!values.includes(chosen[filter])) chosen[filter] = preferred(filter, values);
    if (filter !== "problem" || used.includes(filter))
      left = left.filter((row) => row[filter] === chosen[filter]);
    const select = form.elements[filter];
    select.replaceChildren(...values.map((value) =>
        new Option(filter === "run" ? runTitle(value) : value || "–", value)));
    select.value = chosen[filter];
    select.parentElement.hidden = !used.includes(filter) || values.length === 1 && filter !== "family" &&
        !["problem", "dtype"].includes(filter);
  }
}

const TITLES = Object.fromEntries([...document.querySelectorAll("section[data-view]")].map((section) =>
    [section.dataset.view, section.querySelector("h2").textContent]));

function draw() {
  hideTip();
  fillFilters();
  for (const section of document.querySelectorAll("section[data-view]"))
    section.classList.toggle("shown", section.dataset.view === chosen.view);
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    link.toggleAttribute("aria-current", false);
    if (link.dataset.view === chosen.view) link.setAttribute("aria-current", "page");
    // A choice of a ladder goes along to the other views of it.
    const kept = FILTERED[link.dataset.view] && FILTERED[chosen.view] && chosen.family
        ? Object.fromEntries(FILTERS.map((name) => [name, chosen[name]])) : {};
    link.href = address(link.dataset.view, kept);
  }
  const title = [TITLES[chosen.view], FILTERED[chosen.view] && named(chosen)].filter(Boolean).join(" · ");
  document.title = `${title} · Kernel Ladder`;
  document.querySelector(`section[data-view=${chosen.view}] h2`).textContent = title;
  VIEWS[chosen.view]();
  return title;
}

form.onsubmit = (event) => event.preventDefault();
form.onchange = (event) => {
  const changed = event.target.name;
  const kept = FILTERS.slice(0, FILTERS.indexOf(changed)).map((name) => [name, chosen[name]]);
  const value = changed === "run" ? Number(event.target.value) : event.target.value;
  // What comes behind gives way only where it must: another family has other operations.
  const behind = FILTERS.slice(FILTERS.indexOf(changed) + 1).map((name) => [name, chosen[name]]);
  const to = {view: chosen.view, ...Object.fromEntries(kept), [changed]: value,
              ...Object.fromEntries(changed === "family" ? [] : behind), version: chosen.version};
  location.hash = new URLSearchParams(Object.entries(to).filter(([, one]) => one !== undefined));
};

// Links stay where they are in the page, so that the focus and the place are kept within a view.
addEventListener("hashchange", () => {
  if (byId(location.hash.slice(1))) return;  // a link to an element
  const before = chosen.view;
  const step = document.activeElement.closest?.(".path");
  const field = document.activeElement.closest?.("select, input")?.name;
  readAddress();
  const title = draw();
  say(title);
  if (chosen.view !== before) {
    document.querySelector(`section[data-view=${chosen.view}] h2`).focus({preventScroll: true});
    scrollTo(0, 0);
  } else if (step) {
    document.querySelector(".path [aria-current]")?.focus({preventScroll: true});
  } else if (field) {
    document.querySelector(`main [name=${field}]`)?.focus({preventScroll: true});
  } else if (document.activeElement === document.body) {
    document.querySelector(`section[data-view=${chosen.view}] h2`).focus();
  }
});
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());

let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  draw();
});

for (const id of ["summary", "problems"]) {
  const scroll = byId(id).querySelector(".scroll");
  if (!scroll) continue;
  sortable(scroll.querySelector("table"));
  searchable(scroll, id === "summary" ? "ladders" : "rows");
}
setUpSearch();
readAddress();
draw();
