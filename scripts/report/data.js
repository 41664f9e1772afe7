"use strict";

// What was measured, and how it is grouped into ladders.

const report = JSON.parse(document.getElementById("data").textContent);
const rowsOf = ({columns, rows}) => rows.map((cells) =>
    Object.fromEntries(columns.map((column, i) => [column, cells[i]])));
const rows = rowsOf(report);
const OWN = report.runs.length;  // runs of the page; behind them come those of results/

// What a script element holds, unpacked when it is first asked for.
const unpacked = {};
function unpack(id) {
  unpacked[id] ??= (async () => {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  })();
  return unpacked[id];
}

// Puts the runs of results/ behind the page's own.
async function addPublished() {
  const more = await unpack("published");
  if (report.runs.length > OWN) return;
  for (const name of ["runs", "roofs", "sizes"]) report[name].push(...more[name]);
  rows.push(...rowsOf(more));
  report.versions = {...more.versions, ...report.versions};
}

const LADDER = ["family", "op", "dtype"];
const unique = (values) => [...new Set(values)];
const agree = (a, b, names) => names.every((name) => a[name] === b[name]);
const spoken = (kernel) => kernel.replaceAll("_", " ");
const named = (row) => LADDER.map((name) => row[name]).filter(Boolean).join(" ");
const ladderName = (row) => LADDER.map((name) => row[name]).join("/");
const gpuOf = (row) => report.runs[row.run].gpu;
function runTitle(run) {
  const {gpu, name, earlier} = report.runs[run];
  return [gpu, name, run >= OWN && "published", earlier && "earlier protocol"].filter(Boolean).join(" · ");
}
const written = (row) => report.versions[`${row.family}/${row.kernel}`];
const sizesOf = (row) => report.sizes.find((one) => agree(one, row, [...LADDER, "run"]));
const isRoofs = (row) => row.family === "roofs";

const asMultiple = (value) =>
    `${value < 1.005 ? value.toFixed(3) : value < 10 ? value.toFixed(2) : Math.round(value)}×`;

// How much faster `row` is than `before`, in words; told says whether the run can tell them apart.
function gainOf(row, before) {
  if (!row.time || !before?.time) return null;
  const gain = before.time / row.time;
  const told = row.resolution === null || 100 * Math.abs(gain - 1) > row.resolution;
  const text = !told ? "no difference" : gain >= 1 ? `${asMultiple(gain)} faster`
      : `${asMultiple(1 / gain)} slower`;
  return {gain, told, text};
}

// The versions of one ladder, each with the one it is compared with: the version that the head of its
// source names, or the nearest before that which this ladder has. `spine` are the steps from where the
// ladder begins to its fastest version.
function pathOf(list) {
  const rungs = list.filter((row) => !row.vendor && !row.peer);
  const of = new Map(rungs.map((row) => [row.kernel, row]));
  const steps = rungs.map((row, i) => {
    let name = written(row)?.before ?? rungs[i - 1]?.kernel;
    while (name && !of.has(name)) name = report.versions[`${row.family}/${name}`]?.before;
    const before = of.get(name) ?? null;
    return {row, before, gain: gainOf(row, before)};
  });
  const stepOf = new Map(steps.map((step) => [step.row, step]));
  const best = rungs.find((row) => row.simplest);
  const spine = new Set();
  for (let at = best; at && !spine.has(at); at = stepOf.get(at).before) spine.add(at);
  for (const step of steps) step.onSpine = best === undefined || spine.has(step.row);
  return steps;
}

const median = (sorted) => sorted[Math.floor(sorted.length / 2)];
