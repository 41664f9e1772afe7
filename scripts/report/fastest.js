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

function drawShapes() {
  const box = byId("shapes");
  const list = rows.filter((row) => row.time && agree(row, chosen, [...LADDER, "cache", "run"]));
  if (!list.length) return box.replaceChildren(h("p", {}, "No version was timed here."));
  const problems = unique(list.map((row) => row.problem));
  const winners = problems.map((problem) => {
    const here = list.filter((row) => row.problem === problem);
    return {problem, here, best: here.find((row) => row.simplest),
            vendor: here.find((row) => row.vendor)};
  }).filter(({best}) => best).sort((a, b) => a.best.work - b.best.work);
  const time = h("figure", {}), share = h("figure", {});
  const answer = h("div", {id: "answer", role: "status"});
  const shape = h("input", {name: "shape", size: 22, placeholder: problems.at(-1), value: chosen.shape ?? "",
                            list: "measured", autocomplete: "off"});
  const follow = h("select", {name: "follow", onchange: () => { go({version: follow.value}); }},
    h("option", {value: ""}, "none"), ...unique(list.filter((row) => !row.vendor).map((row) => row.kernel))
        .sort().map((kernel) => h("option", {value: kernel}, spoken(kernel))));
  follow.value = list.some((row) => row.kernel === chosen.version) ? chosen.version : "";
  const form = h("form", {class: "ask", onsubmit: (event) => { event.preventDefault(); go({shape: shape.value}); }},
    h("label", {}, "my shape ", shape), h("button", {type: "submit"}, "Find"),
    h("label", {}, "follow a version ", follow),
    h("datalist", {id: "measured"}, ...problems.map((problem) => h("option", {value: problem}))));
  const table = shapesTable(winners);
  box.replaceChildren(form, answer, h("div", {class: "charts"}, time, share), keyOf(list), table,
    h("p", {class: "note"}, resolutionText(list)));
  const asked = chosen.shape ? nearest(chosen.shape, winners) : [];
  if (chosen.shape) answer.replaceChildren(...answerParts(asked));
  const near = asked[0]?.best.work;
  sizeChart(time, list, near, {title: "time", of: (row) => row.time, log: true, text: briefTime});
  if (list.some((row) => row.share > 0))
    sizeChart(share, list, near, {title: "share of the roof, %", of: (row) => row.share, log: false,
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

function sizeChart(box, list, near, measure) {
  const shown = list.filter((row) => measure.of(row) > 0 && row.work > 0);
  const values = shown.map(measure.of), works = shown.map((row) => row.work);
  const room = (numbers, factor) => [Math.min(...numbers) / factor, Math.max(...numbers) * factor];
  const [left, right] = room(works, 1.6), [low, high] = measure.log ? room(values, 1.4)
      : [0, Math.max(105, ...values) * 1.02];
  const unit = list[0].compute ? "FLOP" : "bytes";
  const made = chart(box, {
    label: `${measure.title} over size, ${named(chosen)}; the table below has the same numbers`, height: 330,
    x: {from: left, to: right, log: true, title: `size of the problem, ${unit}`},
    y: {from: low, to: high, log: measure.log, title: measure.title, text: measure.text},
  });
  const at = (row) => [made.px(row.work), made.py(measure.of(row))];
  if (!measure.log) made.node.append(svg("line", {class: "roof", x1: made.left, x2: made.right,
                                                  y1: made.py(100), y2: made.py(100)}));
  if (near) made.node.append(svg("line", {class: "asked", x1: made.px(near), x2: made.px(near),
                                          y1: made.top, y2: made.bottom}));
  const line = (rowsOf, kind) => {
    const points = rowsOf.sort((a, b) => a.work - b.work).map(at);
    if (points.length > 1 && points.length < 13)
      made.node.append(svg("polyline", {class: `line ${kind}`, points: points.map((p) => p.join(" ")).join(",")}));
  };
  line(shown.filter((row) => row.vendor && row.kernel === shown.find((one) => one.vendor).kernel), "vendor");
  line(shown.filter((row) => row.kernel === chosen.version), "followed");
  line(shown.filter((row) => row.simplest), "best");
  const linkOf = new Map(shown.map((row) => {
    const mark = look(row);
    if (row.kernel === chosen.version) mark.kind += " followed";
    return [row, point(...at(row), mark, whyOf(row), says(row))];
  }));
  made.node.append(...[...shown].sort(byLook).map((row) => linkOf.get(row)));
  const inOrder = [...shown].sort((a, b) => a.work - b.work || measure.of(a) - measure.of(b));
  roving(inOrder.map((row) => linkOf.get(row)));  // from left to right, and from the lowest up
}

function shapesTable(winners) {
  const best = (of) => (one) => of(one.best);
  return tableOf("the fastest version at each shape", [
    {title: "shape", kind: "name", value: (one) => one.best.work, cell: (one) => one.problem},
    {title: "fastest", kind: "name", cell: (one) => h("a", {href: whyOf(one.best)}, spoken(one.best.kernel))},
    {title: "tied", cell: (one) => one.best.tied ? one.best.tied.replace("tied with ", "") : ""},
    {title: "time", kind: "number", value: best((row) => row.time), cell: best((row) => row.time_text)},
    {title: "of the roof", kind: "number", value: best((row) => row.share), cell: best((row) => row.share_text)},
    {title: "speed", kind: "number", value: best((row) => row.speed), cell: best((row) => row.speed_text)},
    {title: `over ${winners[0]?.best.against ?? ""}`, kind: "number", value: best((row) => row.ratio),
     cell: best((row) => row.ratio_text)},
    {title: "marks", cell: (one) => h("span", {}, ...marks(one.best).map((text) => h("span", {class: "badge"}, text)))},
  ], winners);
}
