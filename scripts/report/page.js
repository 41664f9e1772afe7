// What is chosen stands in the address, so that it can be sent to others and the back button works.

// A page shows one run; what comes behind is what that run has.
const FILTERS = ["run", "family", "op", "dtype", "problem", "cache"];
const VIEWS = {story: drawStory, why: drawWhy, sizes: drawSizes, roof: drawRoof, compare: drawCompare,
               runs: () => {}};
const FILTERED = {story: ["run"], why: FILTERS, sizes: FILTERS.filter((name) => name !== "problem"), roof: FILTERS};
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

// The run of the longest ladder that has what is chosen; over size the one with the longest ranges.
function preferredRun(runs) {
  const asked = LADDER.filter((name) => chosen[name] !== undefined);
  const ladders = Object.entries(report.main).map(([name, {run}]) => {
    const [family, op, dtype] = name.split("/");
    return {family, op, dtype, run};
  });
  const there = ladders.filter((one) => agree(one, chosen, asked));
  const first = (there[0] ?? ladders[0]).run;
  if (chosen.view !== "sizes" || !there.length) return first;
  const joined = (run) => sizesOf({...there[0], run})?.ranges.flat().length ?? 0;
  return runs.reduce((most, run) => joined(run) > joined(most) ? run : most, first);
}

// Of the longest ladder that has what is chosen before `filter`, or of its main problem.
function preferred(filter, values) {
  const fixed = LADDER.includes(filter) ? LADDER.slice(0, LADDER.indexOf(filter)) : LADDER;
  const wanted = Object.keys(report.main).map((name) => {
    const [family, op, dtype] = name.split("/");
    return {family, op, dtype, problem: report.runs[chosen.run].main[name], cache: "cold"};
  }).filter((one) => agree(one, chosen, fixed)).map((one) => one[filter]);
  return wanted.find((one) => values.includes(one)) ?? values[0];
}

// Each list offers what the choices before it leave; a choice that is no more gives way.
function fillFilters() {
  const used = FILTERED[chosen.view];
  form.hidden = !used || used.length === 1 && OWN === 1;
  if (!used) return;
  if (!report.runs[chosen.run]) chosen.run = preferredRun(Array.from({length: OWN}, (_, run) => run));
  let left = rows.filter((row) => row.run < OWN || row.run === chosen.run);
  for (const filter of FILTERS) {
    if (used.length === 1 && filter !== "run") {
      form.elements[filter].parentElement.hidden = true;
      continue;
    }
    const values = unique(left.map((row) => row[filter]));
    if (filter === "run") values.sort((a, b) => a - b);
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

// The tables that stand in the page without its script are of all runs.
function showSummaryOf(run) {
  const table = document.querySelector("#summary table");
  for (const line of table?.tBodies[0].rows ?? [])
    line.classList.toggle("of-another", Number(line.dataset.run) !== run);
}

const TITLES = Object.fromEntries([...document.querySelectorAll("section[data-view]")].map((section) =>
    [section.dataset.view, section.querySelector("h2").textContent]));

function draw() {
  if (report.runs.length === OWN && (chosen.view === "compare" || chosen.run >= OWN))
    addPublished().then(() => report.runs.length > OWN && draw(), () => {});  // old browsers can't unpack
  hideTip();
  fillFilters();
  for (const section of document.querySelectorAll("section[data-view]"))
    section.classList.toggle("shown", section.dataset.view === chosen.view);
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    link.toggleAttribute("aria-current", false);
    if (link.dataset.view === chosen.view) link.setAttribute("aria-current", "page");
    // A choice of a ladder goes along to the other views of it.
    const along = link.dataset.view === "story" ? ["run"] : FILTERS;
    const kept = FILTERED[link.dataset.view] && FILTERED[chosen.view]
        ? Object.fromEntries(along.map((name) => [name, chosen[name]])) : {};
    link.href = address(link.dataset.view, kept);
  }
  const of = FILTERED[chosen.view] && chosen.family && named(chosen);
  const title = [TITLES[chosen.view], of].filter(Boolean).join(" · ");
  document.title = `${title} · Kernel Ladder`;
  document.querySelector(`section[data-view=${chosen.view}] h2`).textContent = title;
  showSummaryOf(chosen.run);
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
