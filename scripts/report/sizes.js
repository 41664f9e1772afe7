// Time and share of the roof over size, and which version is the fastest at each shape.

const numbersOf = (shape) => (shape.match(/\d+/g) ?? []).map(Number);
const kindOf = (shape) => shape.replace(/\d+/g, "n");

// How far apart two shapes are: by the factors between their numbers; by their product if one has more
// numbers than the other.
function distance(a, b) {
  let [x, y] = [numbersOf(a), numbersOf(b)];
  if (!x.length || !y.length) return Infinity;
  const product = (list) => [list.reduce((p, n) => p * Math.max(n, 1), 1)];
  if (x.length !== y.length) [x, y] = [product(x), product(y)];
  const apart = Math.hypot(...x.map((n, i) => Math.log2(Math.max(n, 1) / Math.max(y[i], 1))));
  return apart + (kindOf(a) === kindOf(b) ? 0 : 0.01);
}

const EVERY = "every";  // in place of a version's name

function drawSizes() {
  const box = byId("sizes");
  const list = rows.filter((row) => row.time && agree(row, chosen, [...LADDER, "cache", "run"]));
  if (!list.length) return box.replaceChildren(h("p", {}, "No version was timed here."));
  const {unit, ranges} = sizesOf(chosen);
  const problems = unique(list.map((row) => row.problem));
  const winners = problems.map((problem) => {
    const here = list.filter((row) => row.problem === problem);
    return {problem, best: here.find((row) => row.simplest),
            library: here.find((row) => row.library)};
  }).filter(({best}) => best).sort((a, b) => a.best[unit] - b.best[unit]);
  const time = h("figure", {}), share = h("figure", {});
  const answer = h("div", {id: "answer", role: "status"});
  const shape = h("input", {name: "shape", size: 18, placeholder: problems.at(-1), value: chosen.shape ?? "",
                            list: "measured", autocomplete: "off"});
  const beside = h("select", {name: "beside", onchange: () => { go({version: beside.value}); }},
    h("option", {value: ""}, "nothing more"), h("option", {value: EVERY}, "every version"),
    ...unique(list.filter((row) => !row.vendor).map((row) => row.kernel))
        .sort().map((kernel) => h("option", {value: kernel}, spoken(kernel))));
  const followed = list.filter((row) => row.kernel === chosen.version && !row.vendor);
  const every = chosen.version === EVERY || !winners.length;
  beside.value = followed.length ? chosen.version : every ? EVERY : "";
  const form = h("form", {class: "ask", onsubmit: (event) => { event.preventDefault(); go({shape: shape.value}); }},
    h("label", {}, "my shape ", shape), h("button", {type: "submit"}, "Find"),
    h("label", {}, "show beside them ", beside),
    h("datalist", {id: "measured"}, ...problems.map((problem) => h("option", {value: problem}))));
  const lines = [
    {kind: "vendor", points: winners.map(({library}) => library).filter(Boolean)},
    {kind: "followed", points: followed},
    {kind: "best", points: winners.map(({best}) => best)},
  ];
  const shown = every ? list : unique(lines.flatMap(({points}) => points));
  box.replaceChildren(form, answer, h("div", {class: "charts"}, time, share), keyOf(shown),
    h("p", {class: "note"}, ranges.length ? "A line joins three or more problems in which the same numbers grow by one " +
      "factor and the others stay. " : "", "A bar spans a point's launches from the shortest to the 95th " +
      "percentile, where the point does not cover it."),
    shapesTable(winners, unit), h("p", {class: "note"}, resolutionText(list)));
  const asked = chosen.shape ? nearest(chosen.shape, winners) : [];
  if (chosen.shape) answer.replaceChildren(...answerParts(asked));
  const drawn = {shown, lines, ranges, unit, near: asked[0]?.best[unit]};
  sizeChart(time, drawn, {title: "time", of: (row, us) => us, log: true, text: briefTime, names: true});
  if (shown.some((row) => row.share > 0))
    sizeChart(share, drawn, {title: "share of the roof, %", of: (row, us) => row.share * row.time / us, log: false,
                             text: (value) => String(value)});
  else share.remove();
}

const nearest = (shape, winners) => winners.map((one) => ({...one, apart: distance(shape, one.problem)}))
    .filter(({apart}) => Number.isFinite(apart)).sort((a, b) => a.apart - b.apart).slice(0, 3);

function answerParts(found) {
  if (!found.length) return [h("p", {}, "A shape is numbers, such as 4096x1000.")];
  const exact = found[0].problem === chosen.shape;
  const near = exact ? found.slice(0, 1) : found;
  return [
    h("p", {}, exact ? "Measured:" : "Not measured; the nearest that were:"),
    h("ul", {}, ...near.map(({problem, best}) => h("li", {}, `${problem}: `,
      h("a", {href: whyOf(best)}, spoken(best.kernel)), best.tied ? `, ${best.tied}` : "",
      ` · ${[best.time_text, best.share_text && `${best.share_text} of ${best.roof}`].filter(Boolean).join(", ")}`))),
    exact ? "" : h("p", {class: "note"}, unique(near.map(({best}) => best.kernel)).length === 1
      ? "They agree." : "They differ, so measure yours: ./bench with the family's flag takes any shape."),
  ];
}

function resolutionText(list) {
  const apart = list.map((row) => row.resolution).filter((r) => r !== null).sort((a, b) => a - b);
  return apart.length ? `Differences below ${median(apart).toFixed(2)} % (median; at worst ` +
      `${apart.at(-1).toFixed(2)} %) are not told apart: such versions are tied.`
      : "This file is of the earlier protocol, which does not say what it can't tell apart.";
}

// measure.of says what a launch of `us` microseconds means for a row.
function sizeChart(box, {shown, lines, ranges, unit, near}, measure) {
  const value = (row) => measure.of(row, row.time);
  const list = shown.filter((row) => value(row) > 0 && row[unit] > 0);
  const ends = (row) => [row.time_low ?? row.time, row.time_high ?? row.time].map((us) => measure.of(row, us));
  const front = new Set(lines.flatMap(({points}) => points));
  const values = list.flatMap((row) => front.has(row) ? [value(row), ...ends(row)] : [value(row)]);
  const room = (numbers, factor) => [Math.min(...numbers) / factor, Math.max(...numbers) * factor];
  const [left, right] = room(list.map((row) => row[unit]), 1.6);
  const below = (Math.max(...values) / Math.min(...values)) ** 0.12;  // for the names
  const [low, high] = measure.log ? room(values, Math.max(1.4, below)) : [0, Math.max(105, ...values) * 1.02];
  const made = chart(box, {
    label: `${measure.title} over size, ${named(chosen)}; the table below has the same numbers`, height: 330,
    x: {from: left, to: right, log: true, title: `size of the problem, ${unit === "flops" ? "FLOP" : "bytes"}`},
    y: {from: low, to: high, log: measure.log, title: measure.title, text: measure.text},
  });
  const x = (row) => made.px(row[unit]), y = (row) => made.py(value(row));
  if (!measure.log) made.node.append(svg("line", {class: "roof", x1: made.left, x2: made.right,
                                                  y1: made.py(100), y2: made.py(100)}));
  if (near) made.node.append(svg("line", {class: "asked", x1: made.px(near), x2: made.px(near),
                                          y1: made.top, y2: made.bottom}));
  for (const {kind, points} of lines) {
    const of = new Map(points.filter((row) => list.includes(row)).map((row) => [row.problem, row]));
    for (const range of ranges) {
      const joined = range.map((problem) => of.get(problem)).filter(Boolean);
      if (joined.length > 1)
        made.node.append(svg("polyline", {class: `line ${kind} ${ranges.length > 3 ? "many" : ""}`,
                                          points: joined.map((row) => `${x(row)},${y(row)}`).join(" ")}));
    }
    for (const row of of.values()) {
      const [from, to] = ends(row).map(made.py);
      made.node.append(svg("line", {class: `spread ${kind}`, x1: x(row), x2: x(row), y1: from, y2: to}));
    }
  }
  const linkOf = new Map(list.map((row) => {
    const mark = look(row);
    if (row.kernel === chosen.version) mark.kind += " followed";
    return [row, point(x(row), y(row), mark, whyOf(row), [...says(row), spreadText(row)])];
  }));
  made.node.append(...[...list].sort(byLook).map((row) => linkOf.get(row)));
  const inOrder = [...list].sort((a, b) => a[unit] - b[unit] || value(a) - value(b));
  roving(inOrder.map((row) => linkOf.get(row)));  // from left to right, and from the lowest up
  if (measure.names)
    nameWinners(made, lines.find(({kind}) => kind === "best").points.map((row) => [row, x(row), y(row)]));
}

const spreadText = (row) => row.time_low && row.time_high
    ? `from ${briefTime(row.time_low)} to ${briefTime(row.time_high)} (95th percentile)` : "";

// Below the points, where another version begins to be the fastest and there is room.
function nameWinners(made, places) {
  let last;
  const taken = places.map(([, x, y]) => [x, y, 12]);
  for (const [row, x, y] of places) {
    const name = row.short, half = 4.5 * name.length;
    if (name === last || taken.some(([left, top, reach]) => Math.abs(left - x) < half + reach &&
        Math.abs(top - (y + 18)) < 12)) continue;
    last = name;
    taken.push([x, y + 18, half]);
    made.node.append(svg("text", {class: "point-name", x, y: y + 22, "text-anchor": "middle",
                                  "aria-hidden": true}, name));
  }
}

function shapesTable(winners, unit) {
  const best = (of) => (one) => of(one.best);
  return tableOf("the fastest version at each shape", [
    {title: "shape", kind: "name", value: (one) => one.best[unit], cell: (one) => one.problem},
    {title: "fastest", kind: "name", cell: (one) => h("a", {href: whyOf(one.best)}, spoken(one.best.kernel))},
    {title: "tied", cell: (one) => one.best.tied ? one.best.tied.replace("tied with ", "") : ""},
    {title: "time", kind: "number", value: best((row) => row.time), cell: best((row) => row.time_text)},
    {title: "of the roof", kind: "number", value: best((row) => row.share), cell: best((row) => row.share_text)},
    {title: "speed", kind: "number", value: best((row) => row.speed), cell: best((row) => row.speed_text)},
    {title: `over ${unique(winners.map(({best}) => best.against).filter(Boolean)).join(" or ")}`, kind: "number", value: best((row) => row.ratio),
     cell: best((row) => row.ratio_text)},
    {title: "GPU", cell: (one) => gpuOf(one.best)},
    {title: "marks", cell: (one) => h("span", {}, ...marks(one.best).map(badge))},
  ], winners);
}
