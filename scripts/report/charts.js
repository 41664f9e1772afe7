// Charts as SVG: a frame with two axes, lines, and points that are links.

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

function brief(value) {
  const [size, prefix] = PREFIXES.find(([size]) => value >= size * 0.9995) ?? [1, ""];
  return `${Number((value / size).toPrecision(3))}\u00a0${prefix}`.trim();
}

const briefTime = (us) => us >= 999.5 ? `${Number((us / 1000).toPrecision(3))}\u00a0ms`
    : `${Number(us.toPrecision(3))}\u00a0µs`;

// Where an axis is labelled: at powers of ten, and between them if those are few.
function logTicks(from, to) {
  const found = [];
  for (const steps of [[1], [1, 3], [1, 2, 5], [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]]) {
    found.length = 0;
    for (let e = Math.floor(Math.log10(from)); e <= Math.log10(to); ++e)
      for (const step of steps)
        if (step * 10 ** e >= from && step * 10 ** e <= to) found.push(step * 10 ** e);
    if (found.length >= 4) break;
  }
  return found;
}

function linearTicks(from, to) {
  const rough = (to - from) / 6, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * size >= rough) * size;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step / 1e6; at += step) found.push(at);
  return found;
}

// An axis: {from, to, title, log, text} where text writes a tick.
function scale(axis, begin, end) {
  const of = axis.log ? Math.log : (value) => value;
  const [from, to] = [of(axis.from), of(axis.to)];
  return (value) => begin + (of(value) - from) / (to - from) * (end - begin);
}

function chart(box, {label, height, x, y}) {
  const width = Math.max(260, box.clientWidth);
  const left = 62, right = 14, top = 24, bottom = 42;
  const px = scale(x, left, width - right), py = scale(y, height - bottom, top);
  const ticks = (axis) => axis.log ? logTicks(axis.from, axis.to) : linearTicks(axis.from, axis.to);
  const write = (axis) => axis.text ?? brief;
  const grid = svg("g", {class: "grid", "aria-hidden": true});
  const least = (width - left - right) / Math.max(1, Math.floor((width - left - right) / 54));
  let last = -Infinity;
  for (const at of ticks(x)) {
    grid.append(svg("line", {x1: px(at), x2: px(at), y1: top, y2: height - bottom}));
    if (px(at) - last < least) continue;
    last = px(at);
    grid.append(svg("text", {x: px(at), y: height - bottom + 16, "text-anchor": "middle"}, write(x)(at)));
  }
  for (const at of ticks(y))
    grid.append(svg("line", {x1: left, x2: width - right, y1: py(at), y2: py(at)}),
                svg("text", {x: left - 6, y: py(at) + 4, "text-anchor": "end"}, write(y)(at)));
  grid.append(svg("text", {class: "title", x: width - right, y: height - 6, "text-anchor": "end"}, x.title),
              svg("text", {class: "title", x: 2, y: 12}, y.title));
  const node = svg("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
                           "aria-label": label}, grid);
  box.append(node);
  return {node, px, py, width, height, left, right: width - right, top, bottom: height - bottom};
}

const SHAPES = {
  circle: (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  diamond: (r) => `M0 ${-1.3 * r}L${1.3 * r} 0L0 ${1.3 * r}L${-1.3 * r} 0z`,
  cross: (r) => `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}`,
};

// How a row's point looks: the vendor's library, the fastest and what is tied with it, and the others.
function look(row) {
  if (row.suspect) return {kind: "suspect", shape: "cross", r: 4};
  if (row.vendor) return {kind: "vendor", shape: "diamond", r: 6};
  if (row.peer) return {kind: "peer", shape: "diamond", r: 3.5};
  if (row.simplest) return {kind: "best", shape: "circle", r: 6};
  if (row.best) return {kind: "tied", shape: "circle", r: 8};
  return {kind: "other", shape: "circle", r: 3.5};
}

// What is asked for first is drawn last.
const FRONT = ["other", "peer", "suspect", "vendor", "tied", "best"];
const byLook = (a, b) => FRONT.indexOf(look(a).kind) - FRONT.indexOf(look(b).kind);

function point(x, y, {kind, shape, r}, href, lines) {
  const link = svg("a", {href, class: `point ${kind}`, transform: `translate(${x} ${y})`,
                         "aria-label": lines.filter(Boolean).join(". ")},
                   svg("path", {class: "hit", d: SHAPES.circle(11)}), svg("path", {d: SHAPES[shape](r)}));
  tells(link, lines);
  return link;
}

const KEY = {
  best: "the fastest (the simplest of those tied)", tied: "tied with it",
  vendor: "the vendor's library", peer: "another program", other: "other versions",
  suspect: "above its roof, so suspect",
};

// Only what a picture shows of KEY.
function keyOf(list) {
  const looks = new Map(list.map((row) => [look(row).kind, look(row)]));
  return h("ul", {class: "key", "aria-label": "Marks"}, ...Object.keys(KEY).filter((kind) => looks.has(kind))
      .map((kind) => {
        const {shape, r} = looks.get(kind);
        return h("li", {}, svg("svg", {width: 16, height: 16, viewBox: "-10 -10 20 20", "aria-hidden": true},
                               svg("g", {class: `point ${kind}`}, svg("path", {d: SHAPES[shape](r)}))),
                 KEY[kind]);
      }));
}
