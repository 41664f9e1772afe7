"use strict";

const report = JSON.parse(document.getElementById("data").textContent);
const rows = report.rows.map((cells) =>
    Object.fromEntries(report.columns.map((column, i) => [column, cells[i]])));

const FILTERS = ["family", "op", "dtype", "problem", "cache"];
const chosen = {};
const hiddenRuns = new Set();

const form = document.getElementById("filters");
const every = document.getElementById("every");
const narrow = matchMedia("(max-width: 640px)");
const dark = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(pointer: coarse)");

const unique = (values) => [...new Set(values)];
const spoken = (kernel) => kernel.replaceAll("_", " ");
const named = (row) => [row.family, row.op, row.dtype].filter(Boolean).join(" ");
const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const runColour = (run) => colour(`run${run % 5}`);
const runsOf = (list) => unique(list.map((row) => row.run)).sort((a, b) => a - b);

// plotly reads a few HTML tags in its texts.
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// ---- Choosing

const matching = (filters) => rows.filter((row) => filters.every((f) => row[f] === chosen[f]));
const shown = (list) => list.filter((row) => !hiddenRuns.has(row.run));

function preferred(filter, values) {
  if (filter !== "problem") return values[0];
  const main = report.main[[chosen.family, chosen.op, chosen.dtype].join("/")];
  return values.includes(main) ? main : values[0];
}

// Each list offers what the choices before it leave; a choice that is no more gives way.
function fillFilters() {
  FILTERS.forEach((filter, i) => {
    const values = unique(matching(FILTERS.slice(0, i)).map((row) => row[filter]));
    if (!values.includes(chosen[filter])) chosen[filter] = preferred(filter, values);
    const select = form.elements[filter];
    select.replaceChildren(...values.map((value) => new Option(value || "–", value)));
    select.value = chosen[filter];
    select.parentElement.hidden = values.length === 1 && !values[0];
  });

  const runs = runsOf(matching(FILTERS));
  const which = document.getElementById("which");
  which.hidden = runs.length < 2;
  which.replaceChildren(...runs.map((run) => {
    const box = element("input", "", {type: "checkbox"});
    box.checked = !hiddenRuns.has(run);
    box.onchange = () => {
      box.checked ? hiddenRuns.delete(run) : hiddenRuns.add(run);
      draw();
    };
    const label = element("label");
    label.append(box, " ", dot(run), report.runs[run]);
    return label;
  }));
}

function dot(run) {
  return element("span", "", {class: "dot", style: `background: var(--run${run % 5})`});
}

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (!asked.has("family")) return false;
  for (const filter of FILTERS) chosen[filter] = asked.get(filter) ?? undefined;
  return true;
}

function writeAddress() {
  history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
}

// ---- The ladder

// What the bars show is the first of these that a row has.
const MEASURES = [
  {of: (row) => row.share, text: (row) => row.share_text, title: "share of the roof, %"},
  {of: (row) => row.compute ? row.speed / 1000 : row.speed, text: (row) => row.speed_text,
   title: (row) => row.compute ? "speed, TFLOP/s" : "speed, GB/s"},
  {of: (row) => row.time, text: (row) => row.time_text, title: "time, µs"},
  {of: (row) => row.moved, text: (row) => multiple(row.moved),
   title: "bytes moved, in multiples of the compulsory ones"},
];

const FONT = "system-ui, sans-serif";

// Of texts in bold, in pixels. plotly would find it too, but draws several times to do so.
function widest(texts) {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.font = `bold 12px ${FONT}`;
  return Math.max(...texts.map((text) => canvas.measureText(text).width));
}

function layout(more) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {family: FONT, size: 12, color: colour("ink")},
    hoverlabel: {align: "left", bgcolor: colour("panel"), bordercolor: colour("line"),
                 font: {color: colour("ink")}},
    dragmode: touch.matches ? false : "zoom",
    modebar: {bgcolor: "rgba(0,0,0,0)", color: colour("quiet"), activecolor: colour("link")},
    ...more,
  };
}

function axis(title, more = {}) {
  return {title: {text: title, font: {color: colour("quiet")}}, gridcolor: colour("line"),
          linecolor: colour("line"), zeroline: false, ...more};
}

function marks(row) {
  const found = [];
  if (row.suspect) found.push("suspect");
  if (row.throttled > 0) found.push("throttled");
  if (row.limited) found.push("at the power limit");
  return found;
}

function hover(row) {
  const ratio = row.ratio === null ? ""
      : `${ratioText(row)} ${row.ratio_text === "level" ? "with" : "of"} ${row.against}`;
  return [
    `<b>${escaped(spoken(row.kernel))}</b>`, escaped(row.idea),
    `${escaped(row.problem)} ${row.cache}`,
    [row.time_text, row.burst_text && `burst ${row.burst_text}`, row.speed_text]
        .filter(Boolean).join(", "),
    row.share_text && `${row.share_text} of ${escaped(row.roof)}`, escaped(ratio),
    row.tied, marks(row).join(", "), report.runs.length > 1 ? escaped(report.runs[row.run]) : "",
  ].filter(Boolean).join("<br>");
}

function ratioText(row) {
  if (row.ratio === null) return "";
  const interval = row.low === null || row.high === null
      ? "" : ` [${row.low.toFixed(3)},\u00a0${row.high.toFixed(3)}]`;
  return (row.ratio_text === "level" ? "level" : row.ratio.toFixed(3)) + interval;
}

function drawBars(list) {
  const timed = list.filter((row) => row.verdict === "passed");
  const measure = MEASURES.find((m) => timed.some((row) => m.of(row) > 0));
  const box = document.getElementById("bars");
  box.hidden = !measure;
  if (!measure) return;

  const bars = timed.filter((row) => measure.of(row) > 0);
  const ratios = bars.filter((row) => row.ratio > 0);
  const runs = runsOf(bars);
  const versions = unique(bars.map((row) => row.kernel));
  const stacked = narrow.matches && ratios.length > 0;
  const label = (row) => measure.text(row) + (row.suspect ? " !" : "");

  const traces = runs.flatMap((run) => {
    const of = bars.filter((row) => row.run === run);
    const beside = ratios.filter((row) => row.run === run);
    const group = {name: report.runs[run], legendgroup: `${run}`, offsetgroup: `${run}`,
                   orientation: "h"};
    const drawn = [{
      ...group, type: "bar", x: of.map(measure.of), y: of.map((row) => row.kernel),
      text: of.map(label), textposition: "outside", cliponaxis: false, constraintext: "none",
      textfont: {size: 11}, customdata: of.map(hover),
      hovertemplate: "%{customdata}<extra></extra>",
      marker: {color: runColour(run), opacity: of.map((row) => row.best || row.vendor ? 1 : 0.62),
               pattern: {shape: of.map((row) => row.suspect ? "x" : row.throttled > 0 ? "/" : ""),
                         fgcolor: colour("ground"), fillmode: "overlay", size: 6, solidity: 0.25}},
    }];
    if (beside.length) drawn.push({
      ...group, type: "scatter", mode: "markers", xaxis: "x2", yaxis: "y2", showlegend: false,
      x: beside.map((row) => row.ratio), y: beside.map((row) => row.kernel),
      error_x: {type: "data", symmetric: false, array: beside.map((row) => row.high - row.ratio),
                arrayminus: beside.map((row) => row.ratio - row.low), thickness: 1.5, width: 4},
      customdata: beside.map(hover), hovertemplate: "%{customdata}<extra></extra>",
      marker: {color: runColour(run), size: 7},
    });
    return drawn;
  });

  const longest = Math.max(...bars.map(measure.of));
  const ends = measure === MEASURES[0] ? Math.max(longest, 100) * 1.16 : longest * 1.2;
  const names = versions.map((kernel) => bars.some((row) => row.kernel === kernel && row.best)
      ? `<b>${escaped(spoken(kernel))}</b>` : escaped(spoken(kernel)));
  const yAxis = {type: "category", categoryorder: "array", categoryarray: versions,
                 tickvals: versions, ticktext: names, range: [versions.length - 0.5, -0.5],
                 fixedrange: true, showgrid: false};
  const title = typeof measure.title === "string" ? measure.title : measure.title(bars[0]);
  const rowHeight = 10 + 14 * runs.length;
  const height = versions.length * rowHeight * (stacked ? 2 : 1) + (stacked ? 190 : 110);
  const gap = 50 / height;
  const line = (axisName, at) => ({type: "line", xref: axisName, x0: at, x1: at,
      yref: `${axisName.replace("x", "y")} domain`, y0: 0, y1: 1,
      line: {color: colour("quiet"), width: 1, dash: axisName === "x" ? "solid" : "dash"}});
  const shapes = measure === MEASURES[0] ? [line("x", 100)] : [];
  if (ratios.length) shapes.push(line("x2", 1));

  Plotly.react(box, traces, layout({
    height, barmode: "group", scattermode: "group", bargap: 0.25, shapes,
    margin: {l: widest(versions.map(spoken)) + 8, r: 12, t: runs.length > 1 ? 50 : 12, b: 45},
    showlegend: runs.length > 1, legend: {orientation: "h", y: 1, yanchor: "bottom", x: 0},
    xaxis: axis(title, {range: [0, ends], anchor: "y",
                        domain: stacked || !ratios.length ? [0, 1] : [0, 0.6]}),
    yaxis: axis("", {...yAxis, domain: stacked ? [0.5 + gap, 1] : [0, 1]}),
    ...(ratios.length && {
      xaxis2: axis(`speed over ${ratios[0].against}'s`,
                   {domain: stacked ? [0, 1] : [0.64, 1], anchor: "y2",
                    rangemode: "tozero"}),
      yaxis2: axis("", {...yAxis, anchor: "x2", domain: stacked ? [0, 0.5 - gap] : [0, 1],
                        showticklabels: stacked}),
    }),
  }), {responsive: true, displayModeBar: false});
}

function explainMarks(list) {
  const says = [];
  const vendor = list.some((row) => row.vendor) ? " and v00, the vendor's library" : "";
  const tied = list.some((row) => row.tied) ? ", those tied with it" : "";
  if (list.some((row) => row.best))
    says.push(`In full colour: a run's fastest version${tied}${vendor}.`);
  const apart = unique(list.map((row) => row.resolution).filter(Boolean));
  if (apart.length) says.push(
      `Differences below ${apart.map((r) => `${r.toFixed(2)} %`).join(", ")} are not told apart.`);
  if (list.some((row) => row.suspect))
    says.push("Crossed and !: above its roof, so suspect: a cache helped or bytes are miscounted.");
  if (list.some((row) => row.throttled > 0))
    says.push("Hatched: the GPU was throttled, by power or heat, in some of the samples.");
  if (list.some((row) => row.limited))
    says.push("At the power limit the clock was measured when it had settled; " +
              "burst is a launch after a pause.");
  const counted = unique(list.map((row) => row.counted).filter(Boolean));
  if (counted.length)
    says.push("ld, st: sectors of global memory that loads and stores touch, and wavefronts of " +
              "shared memory that they take, in multiples of the fewest possible, counted on the " +
              `host executor at ${counted.join(", ")}.`);
  document.getElementById("marks").textContent = says.join(" ");
}

function fillTable(list) {
  const several = runsOf(list).length > 1;
  const against = list.find((row) => row.against)?.against;
  const columns = [
    ["run", "name", (row) => runName(row)],
    ["of the roof", "number", (row) => row.share_text],
    [`vs ${against} [95 %]`, "number ratio", ratioText],
    ["time", "number", (row) => row.verdict === "passed" ? row.time_text : row.verdict],
    ["burst", "number", (row) => row.burst_text],
    ["speed", "number", (row) => row.speed_text],
    ["global ld, st", "number", (row) => multiples(row.global_ld, row.global_st)],
    ["shared ld, st", "number", (row) => multiples(row.shared_ld, row.shared_st)],
    ["bytes moved", "number", (row) => multiple(row.moved)],
    ["registers", "number", (row) => row.registers ?? ""],
    ["occupancy", "number",
     (row) => row.occupancy === null ? "" : `${Math.round(100 * row.occupancy)} %`],
    ["SM clock", "number", (row) => row.mhz ? `${Math.round(row.mhz)} MHz` : ""],
    ["power", "number", (row) => row.watts ? `${Math.round(row.watts)} W` : ""],
    ["", "", badges],
  ].filter(([name, , cell]) => name === "run" ? several : list.some((row) => holds(cell(row))));

  const table = element("table");
  const head = table.createTHead().insertRow();
  head.append(element("th", "version", {class: "name version"}),
              ...columns.map(([name, kind]) => element("th", name, {class: kind})));
  const body = table.createTBody();
  let last;
  for (const row of list) {
    const line = body.insertRow();
    line.className = row.best ? "best" : "";
    if (row.kernel !== last?.kernel) line.append(versionCell(row, list));
    last = row;
    for (const [, kind, cell] of columns) {
      const made = element("td", "", {class: kind});
      made.append(cell(row));
      line.append(made);
    }
  }
  document.getElementById("versions").replaceChildren(table);
}

const holds = (content) => content instanceof Node ? content.hasChildNodes() : content !== "";

// One cell for a version's rows of all runs.
function versionCell(row, list) {
  const rowspan = list.filter((other) => other.kernel === row.kernel).length;
  const made = element("td", "", {class: "name version", rowspan});
  const href = report.links[`${row.family}/${row.kernel}`];
  made.append(href ? element("a", spoken(row.kernel), {href}) : spoken(row.kernel),
              element("span", row.idea));
  return made;
}

const multiple = (value) =>
    value === null ? "" : `${value.toFixed(value < 9.95 ? 1 : 0)}\u00a0x`;
const multiples = (...values) =>
    values.some((value) => value !== null) ? values.map((v) => multiple(v) || "–").join(", ") : "";

function runName(row) {
  const made = element("span");
  made.append(dot(row.run), report.runs[row.run]);
  return made;
}

function badges(row) {
  const made = element("span");
  if (row.tied) made.append(element("span", row.tied, {class: "badge"}), " ");
  for (const mark of marks(row)) {
    const share = mark === "throttled" ? ` ${Math.round(100 * row.throttled)} %` : "";
    made.append(element("span", mark + share, {class: `badge ${mark.split(" ").at(-1)}`}), " ");
  }
  if (row.reason) made.append(row.reason);
  return made;
}

// ---- The roofline

function drawRoofline(list) {
  const placed = (row) => row.gflops > 0 && row.intensity > 0;
  const here = list.filter(placed);
  document.getElementById("no-roofline").hidden = here.length > 0;
  document.getElementById("roofline-parts").hidden = !here.length;
  if (!here.length) return;

  const ladder = shown(matching(["family", "op", "dtype", "cache"])).filter(placed);
  const others = every.checked ? ladder.filter((row) => row.problem !== chosen.problem) : [];
  const points = [...here, ...others];
  const roofs = report.roofs.filter((roof) =>
      FILTERS.every((f) => roof[f] === chosen[f]) && !hiddenRuns.has(roof.run));
  const runs = runsOf(points);

  // Room around the points and the ridges, where a memory roof meets a compute roof.
  const rate = (roof) => roof.value ?? roof.pin;
  const memory = roofs.filter((roof) => !roof.compute);
  const compute = roofs.filter((roof) => roof.compute);
  const ridges = compute.flatMap((c) => memory.map((m) => rate(c) / rate(m)));
  const xs = [...points.map((row) => row.intensity), ...ridges];
  const ys = [...points.map((row) => row.gflops), ...compute.map((c) => Math.max(c.value, c.pin))];
  const x = [Math.min(...xs) / 4, Math.max(...xs) * 6];
  const y = [Math.min(...ys) / 3, Math.max(...ys) * 2];

  const traces = runs.flatMap((run) => {
    const mine = roofs.filter((roof) => roof.run === run);
    // Runs agree so well that their labels would lie on one another: one is enough.
    const labelled = (roof) => {
      const same = roofs.filter((one) => one.name === roof.name);
      return roof === (same.find((one) => one.value) ?? same[0]);
    };
    return [...mine.flatMap((roof) => roofLines(roof, mine, x, labelled(roof))),
            ...pointTraces(points, run)];
  });
  const log = (range) => ({type: "log", range: range.map(Math.log10), tickformat: "~g", dtick: 1});
  const legend = runs.length === 1 ? 0 : narrow.matches ? 20 * runs.length : 25;
  Plotly.react("points", traces, layout({
    height: narrow.matches ? 420 : 520, hovermode: "closest",
    margin: {l: 58, r: 10, t: 40 + legend, b: 45},
    showlegend: runs.length > 1,
    legend: {orientation: "h", y: 1, yanchor: "bottom", x: 0, itemsizing: "constant"},
    xaxis: axis("FLOP per compulsory byte", log(x)),
    yaxis: axis("TFLOP/s", log(y.map((v) => v / 1000))),
  }), {
    responsive: true, displaylogo: false, displayModeBar: true,
    modeBarButtons: [["zoomIn2d", "zoomOut2d", "pan2d", "resetScale2d", "toImage"]],
  });
}

function roofLines(roof, mine, [left, right], labelled) {
  const rate = (one) => one.value ?? one.pin;
  const of = (compute) => mine.filter((one) => one.compute === compute).map(rate);
  const ceiling = Math.max(...of(true)), fastest = Math.max(...of(false));
  const label = roof.value_text || roof.pin_text;
  return [["solid", roof.value, roof.value_text], ["dot", roof.pin, roof.pin_text]]
      .filter(([, value]) => value > 0)
      .map(([dash, value, text]) => {
        // A roof ends where it meets the other; with no other it crosses the whole picture.
        const ends = roof.compute
            ? [Number.isFinite(fastest) ? Math.max(left, value / fastest) : left, right]
            : [left, Number.isFinite(ceiling) ? Math.min(right, ceiling / value) : right];
        // Hover finds only points, so the line has some.
        const steps = Array.from({length: 33}, (_, i) => ends[0] * (ends[1] / ends[0]) ** (i / 32));
        const speeds = steps.map((at) => (roof.compute ? value : value * at) / 1000);
        return {
          type: "scatter", mode: "lines+text", x: steps, y: speeds, showlegend: false,
          text: steps.map((_, i) => labelled && text === label && i === (roof.compute ? 31 : 4)
              ? `   ${escaped(roof.name)} ${text}` : ""),
          textposition: roof.compute ? "top left" : "bottom right", textfont: {size: 11},
          line: {color: runColour(roof.run), width: dash === "solid" ? 2 : 1.2, dash},
          hovertemplate: `<b>${escaped(roof.name)}</b><br>${escaped(text)}<extra></extra>`,
        };
      });
}

function pointTraces(points, run) {
  const symbol = (row) => row.suspect ? "x" : row.vendor ? "diamond" : "circle";
  const here = (row) => row.problem === chosen.problem;
  const vendor = points.find((row) => row.vendor && here(row));
  const best = points.find((row) => row.best && here(row));
  const isNamed = (row) => row === vendor || row === best;
  // The legend shows the first point's symbol: not the vendor's, and not a faint one.
  const of = points.filter((row) => row.run === run)
      .sort((a, b) => a.vendor - b.vendor || here(b) - here(a));
  return [{
    type: "scatter", mode: "markers+text", name: report.runs[run],
    x: of.map((row) => row.intensity), y: of.map((row) => row.gflops / 1000),
    text: of.map((row) => isNamed(row) ? `  ${escaped(spoken(row.kernel))}  ` : ""),
    textposition: of.map((row) => row.vendor ? "middle left" : "middle right"),
    textfont: {size: 11, color: runColour(run)},
    customdata: of.map(hover), hovertemplate: "%{customdata}<extra></extra>",
    marker: {color: runColour(run), symbol: of.map(symbol),
             size: of.map((row) => here(row) ? 10 : 6),
             opacity: of.map((row) => here(row) ? 0.9 : 0.45),
             line: {color: colour("ground"), width: 1}},
  }];
}

// ---- The page

function draw() {
  const list = shown(matching(FILTERS));
  document.getElementById("title").textContent =
      [named(chosen), chosen.problem, chosen.cache && `${chosen.cache} L2 cache`]
          .filter(Boolean).join(" · ");
  drawBars(list);
  explainMarks(list);
  fillTable(list);
  drawRoofline(list);
}

function choose() {
  fillFilters();
  draw();
}

form.onsubmit = (event) => event.preventDefault();
form.onchange = (event) => {
  if (!FILTERS.includes(event.target.name)) return;
  chosen[event.target.name] = event.target.value;
  choose();
  writeAddress();
};
every.onchange = draw;
addEventListener("hashchange", () => {
  if (!readAddress()) return;
  choose();
  document.getElementById("ladder").scrollIntoView();
});
for (const query of [narrow, dark]) query.addEventListener("change", draw);

if (!readAddress()) {
  [chosen.family, chosen.op, chosen.dtype] = Object.keys(report.main)[0].split("/");
}
choose();
