// Two runs side by side, of the page's own and of the published ones: the problems that both timed.

const COMPARED = ["family", "op", "dtype", "problem", "cache"];

function timedRuns() {
  return report.runs.map((_, run) => run).filter((run) => rows.some((row) => row.run === run && row.time));
}

// The two runs that have most to compare; of the page's own ones if there are two.
function likelyPair(runs) {
  let most = 0, found = runs.slice(0, 2);
  const own = runs.filter((run) => run < OWN);
  for (const a of own)
    for (const b of own.length > 1 ? own.slice(own.indexOf(a) + 1) : runs.filter((run) => run !== a)) {
      const count = pairs(a, b, "fastest").length;
      if (count > most) [most, found] = [count, [a, b]];
    }
  return found;
}

// Each pair: the same problem in both runs, by each run's fastest version, or by the same one.
function pairs(a, b, what) {
  const key = (row) => [...COMPARED.map((name) => row[name]), what === "same" ? row.kernel : ""].join("/");
  const wanted = (row) => row.time && !isRoofs(row) && (what === "same" || row.simplest);
  const first = new Map(rows.filter((row) => row.run === a && wanted(row)).map((row) => [key(row), row]));
  return rows.filter((row) => row.run === b && wanted(row) && first.has(key(row))).map((second) => {
    const one = first.get(key(second));
    const ratio = one.time / second.time;
    const roof = (row) => row.share > 0 ? row.speed / row.share : NaN;
    const apart = Math.max(one.resolution ?? 0, second.resolution ?? 0);
    return {one, second, ratio, roofs: one.roof === second.roof ? roof(second) / roof(one) : NaN,
            told: 100 * Math.abs(ratio - 1) > apart};
  });
}

function drawCompare() {
  const box = byId("compare");
  const runs = timedRuns();
  if (runs.length < 2)
    return box.replaceChildren(h("p", {}, "This page has one run, and results/ has none of its problems. ",
      h("code", {}, "scripts/report.py before.csv after.csv"), " shows two, of one GPU or of two."));
  const [likelyA, likelyB] = likelyPair(runs);
  const a = runs.includes(Number(chosen.a ?? NaN)) ? Number(chosen.a) : likelyA;
  const b = runs.includes(Number(chosen.b ?? NaN)) ? Number(chosen.b) : likelyB;
  const what = chosen.what === "same" ? "same" : "fastest";
  const choice = (name, label, value, options) => {
    const select = h("select", {name, onchange: () => go({[name]: select.value})},
      ...options.map(([key, text]) => h("option", {value: key}, text)));
    select.value = value;
    return h("label", {}, label, select);
  };
  const titles = runs.map((run) => [run, runTitle(run)]);
  const form = h("form", {class: "ask", "aria-label": "Which runs", onsubmit: (event) => event.preventDefault()},
    choice("a", "first run ", a, titles), choice("b", "second run ", b, titles),
    choice("what", "compare ", what, [["fastest", "the fastest of each"], ["same", "the same version"]]));
  const list = pairs(a, b, what);
  if (!list.length) return box.replaceChildren(form, h("p", {}, "They share no problem that both have timed."));
  const ratios = list.map(({ratio}) => ratio).sort((x, y) => x - y);
  const roofs = list.map((pair) => pair.roofs).filter((r) => r > 0).sort((x, y) => x - y);
  const figure = h("figure", {});
  const table = pairsTable(list, a, b);
  box.replaceChildren(form,
    h("p", {class: "lead"}, `Of ${list.length} shared ${what === "same" ? "measurements" : "problems"} the ` +
      `second run takes less time in ${list.filter((p) => p.told && p.ratio > 1).length} and more in ` +
      `${list.filter((p) => p.told && p.ratio < 1).length}. ` +
      `Its speed is ${median(ratios).toFixed(2)}× the first's (median)` +
      (roofs.length ? `, its roofs are ${median(roofs).toFixed(2)}× as high.` : ".")),
    report.runs[a].earlier === report.runs[b].earlier ? "" : h("p", {class: "warned"}, h("strong", {},
      "The two were measured by different protocols. "), "The earlier one does not say what it can't tell apart."),
    figure,
    h("p", {class: "note"}, "A dot is a problem: to the right of 1 the second run takes less time. The short line " +
      "is what its measured roof promises (the median of the family). Hollow: not told apart."),
    table);
  ratioChart(figure, list);
  searchable(table, "problems");
}

function ratioChart(box, list) {
  const families = unique(list.map(({second}) => second.family));
  const ratios = list.flatMap((pair) => [pair.ratio, pair.roofs > 0 ? pair.roofs : 1]);
  const rowHeight = 26, top = 8, left = 128;
  const width = Math.max(280, box.clientWidth), bottom = top + families.length * rowHeight;
  const x = {from: Math.min(0.95, ...ratios) / 1.04, to: Math.max(1.05, ...ratios) * 1.04, log: true};
  const px = scale(x, left, width - 14);
  const node = svg("svg", {width, height: bottom + 38, viewBox: `0 0 ${width} ${bottom + 38}`, role: "group",
                           "aria-label": "speed of the second run over the first's, by family; the table below " +
                                         "has the same numbers"});
  const grid = svg("g", {class: "grid", "aria-hidden": true});
  let last = -Infinity;
  for (const at of logTicks(x.from, x.to)) {
    grid.append(svg("line", {x1: px(at), x2: px(at), y1: top, y2: bottom, class: at === 1 ? "one" : ""}));
    if (px(at) - last < 40) continue;
    last = px(at);
    grid.append(svg("text", {x: px(at), y: bottom + 16, "text-anchor": "middle"}, `${Number(at.toPrecision(3))}×`));
  }
  grid.append(svg("text", {class: "title", x: width - 14, y: bottom + 33, "text-anchor": "end"},
                  "the second run's speed over the first's"));
  const links = [];
  families.forEach((family, i) => {
    const y = top + (i + 0.5) * rowHeight;
    grid.append(svg("text", {x: left - 10, y: y + 4, "text-anchor": "end"}, family));
    const mine = list.filter(({second}) => second.family === family);
    const roofs = mine.map((pair) => pair.roofs).filter((r) => r > 0).sort((a, b) => a - b);
    if (roofs.length) grid.append(svg("line", {class: "roof", x1: px(median(roofs)), x2: px(median(roofs)),
                                               y1: y - 10, y2: y + 10}));
    for (const pair of [...mine].sort((a, b) => a.ratio - b.ratio))
      links.push(point(px(pair.ratio), y, {kind: pair.told ? "pair" : "pair level", shape: "circle", r: 4},
                       whyOf(pair.second), pairSays(pair)));
  });
  node.append(grid, ...links);
  roving(links);
  box.append(node);
}

const pairSays = ({one, second, ratio, roofs, told}) => [
  `${named(second)} · ${second.problem}`,
  `${spoken(one.kernel)} ${one.time_text} → ${spoken(second.kernel)} ${second.time_text}`,
  told ? `${asMultiple(ratio)} as fast` : "not told apart", roofs > 0 && `the roofs: ${asMultiple(roofs)}`,
];

function pairsTable(list, a, b) {
  const version = (row) => h("a", {href: whyOf(row)}, spoken(row.kernel));
  const several = report.runs[a].gpu !== report.runs[b].gpu;
  const name = (run) => several ? report.runs[run].gpu : `${report.runs[run].gpu} ${report.runs[run].name}`;
  return tableOf("both runs", [
    {title: "ladder", kind: "name", cell: ({second}) => named(second)},
    {title: "problem", value: ({second}) => second.bytes, cell: ({second}) => `${second.problem} ${second.cache}`},
    {title: name(a), cell: ({one}) => version(one)},
    {title: `time, ${name(a)}`, kind: "number", value: ({one}) => one.time, cell: ({one}) => one.time_text},
    {title: name(b), cell: ({second}) => version(second)},
    {title: `time, ${name(b)}`, kind: "number", value: ({second}) => second.time, cell: ({second}) => second.time_text},
    {title: "speed", kind: "number", value: (pair) => pair.ratio,
     cell: (pair) => pair.told ? `${pair.ratio.toFixed(3)}×` : "level"},
    {title: "roofs", kind: "number", value: (pair) => pair.roofs || null,
     cell: (pair) => pair.roofs > 0 ? `${pair.roofs.toFixed(2)}×` : ""},
    {title: "of the roof", kind: "number", value: ({second}) => second.share,
     cell: ({one, second}) => second.share_text ? `${one.share_text} → ${second.share_text}` : ""},
  ], list);
}
