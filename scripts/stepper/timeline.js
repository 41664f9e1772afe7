// The order of everything: who does what, and who waits for whom.

class Timeline {
  constructor(trace, parent, goTo) {
    const list = trace.list;
    const warps = [...new Set(list.filter((s) => s.warp >= 0).map((s) => s.warp))].sort((a, b) => a - b);
    const engine = list.some((s) => s.note === "bulk load" || s.note === "landed" || s.op === "cpa");
    const slots =
        [...new Set(list.filter((s) => s.note === "bulk load").map((s) => s.object))].sort((a, b) => a - b);
    const groups = copyGroups(list, warps[0]);
    const products = warps.flatMap((warp) => productGroups(list, warp)), turns = turnsHandedOn(list);
    const rowsOfGroups = Math.max(0, ...groups.map((group) => group.row + 1));
    const copies = slots.length ? slots.map((object) => `→ ${trace.barriers.get(object)}`) :
                                  Array.from({length: rowsOfGroups}, (_, i) => i ? "" : "copies");
    const names = [...warps.map((w) => `warp ${w}`), ...copies];
    const scroll = element("div", {class: "scroll"}), rows = element("div", {class: "rows"});
    parent.replaceChildren(
        element(
            "h3", {}, element("b", {}, "Who does what, who waits for whom"),
            ": the order in which the executor ran the steps. It is order, not time"),
        rows,
        element(
            "div", {class: "caption"},
            "Filled: big memory. Outlined: shared memory. Small: asks, arrives. Hatched: more than needed, few " +
                "lanes, or a wait. " + (list.some((s) => s.type === "b") ? "Upright line: all warps meet. " : "") +
                (turns.length ? "Arrow: a warp passes the turn on to another. " : "") +
                (products.length ? "Thin bar: products are on the tensor cores. " : "") +
                (slots.length ? "Long bar, empty: the copy engine fills a buffer; solid: it is full. " :
                     engine   ? "Long bar: a group of copies of the first warp is on its way. " :
                                "") +
                "A click goes there."));
    const natural = list.length * Math.max(4, Math.min(14, 1400 / list.length));  // rounds of a pipeline in sight
    const width = Math.max(580, natural), rowHeight = products.length ? 22 : 18;
    const x = (i) => (i + 0.5) * width / list.length, row = (warp) => warps.indexOf(warp) * rowHeight + 4;
    const height = names.length * rowHeight + 4;
    const svg = element("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "Steps of every warp in their order; a click goes there"
    });
    svg.style.minWidth = `${natural}px`;
    svg.style.height = `${height}px`;
    svg.setAttribute("preserveAspectRatio", "none");
    const labels = element("svg", {class: "labels", viewBox: `0 0 62 ${height}`, "aria-hidden": "true"});
    labels.style.height = `${height}px`;
    names.forEach((name, i) => {
      const text = element("text", {x: 0, y: i * rowHeight + 15});
      text.textContent = name;
      labels.append(text);
      svg.append(
          element("line", {class: "row-line", x1: 0, x2: width, y1: i * rowHeight + 11, y2: i * rowHeight + 11}));
    });
    const waiting = new Map(), flights = [], full = new Map(), engineY = warps.length * rowHeight + 4;
    const slotY = (object) => engineY + slots.indexOf(object) * rowHeight;
    const size = Math.max(1.2, Math.min(9, 0.7 * width / list.length));
    const spanFrom = (from, to, y, kind) => svg.append(
        element("rect", {class: kind, x: x(from), y: y + 3, width: Math.max(1, x(to) - x(from)), height: 8}));
    for (const group of groups) spanFrom(group.from, group.to, engineY + group.row * rowHeight, "flight");
    list.forEach((step, i) => {
      if (step.type === "b") {
        svg.append(element("line", {class: "meet", x1: x(i), x2: x(i), y1: 2, y2: warps.length * rowHeight}));
      } else if (step.note === "wait" || step.note === "wgmma wait" || step.note === "named wait") {
        if (!waiting.has(step.warp)) waiting.set(step.warp, i);
      } else if (/passed$/.test(step.note || "") && waiting.has(step.warp)) {
        spanFrom(waiting.get(step.warp), i, row(step.warp), "wait");
        waiting.delete(step.warp);
      } else if (step.note === "bulk load") {
        if (full.has(step.object)) spanFrom(full.get(step.object), i, slotY(step.object), "full");
        full.delete(step.object);
        flights.push({object: step.object, from: i});
      } else if (step.note === "landed") {
        const at = flights.findIndex((f) => f.object === step.object);
        if (at >= 0) spanFrom(flights.splice(at, 1)[0].from, i, slotY(step.object), "flight");
        if (!flights.some((f) => f.object === step.object)) full.set(step.object, i);
      }
      if (step.warp < 0) return;
      const over = isPoor(step);
      const kind = step.type === "q" ? (over ? "mark over" : step.shared ? "mark shared" : "mark") : "mark note";
      const h = step.type === "q" ? 11 : 4;
      svg.append(element(
          "rect", {class: kind, x: x(i) - size / 2, y: row(step.warp) + (15 - h) / 2, width: size, height: h}));
    });
    for (const [object, from] of full) spanFrom(from, list.length - 1, slotY(object), "full");
    for (const {warp, from, to} of products)
      svg.append(
          element("rect", {class: "running", x: x(from), y: row(warp) + 12, width: x(to) - x(from), height: 3}));
    for (const {giver, taker, from, to} of turns) {
      const y = row(giver) + 7.5, down = Math.sign(row(taker) - row(giver)), end = row(taker) + 7.5 - 6 * down;
      svg.append(
          element("path", {class: "turn", d: `M${x(from)} ${y}L${x(to)} ${end - 4 * down}`}),
          element("path", {class: "turn-end", d: `M${x(to)} ${end}l-4 ${- 6 * down}h8z`}));
    }
    this.cursor = element("line", {class: "cursor", y1: 0, y2: height});
    svg.append(this.cursor);
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      const at = (event.clientX - box.left) / box.width * list.length;
      goTo(Math.max(0, Math.min(list.length - 1, Math.floor(at))));
    });
    this.x = x;
    this.width = width;
    this.scroll = scroll;
    scroll.append(svg);
    rows.append(labels, scroll);
  }

  show(at) {
    this.cursor.setAttribute("x1", this.x(at));
    this.cursor.setAttribute("x2", this.x(at));
    const {scroll} = this;
    scroll.scrollLeft = this.x(at) / this.width * scroll.scrollWidth - scroll.clientWidth / 2;
  }
}

/** A warp's groups of what runs on its own, from their first step to the one at which the warp knows them done. */
function groupsUnderWay(list, warp, {begins, commit, wait, done}) {
  const found = [], closed = [];
  let open = null, left = 0;
  list.forEach((step, i) => {
    if (step.warp !== warp) return;
    if (begins(step)) open ??= i;
    if (step.note === commit) {
      closed.push(open);
      open = null;
    }
    if (step.note === wait) left = step.detail;
    while (step.note === done && closed.length > left) {
      const from = closed.shift();
      if (from !== null) found.push({warp, from, to: i});
    }
  });
  return found;
}

const productGroups = (list, warp) => groupsUnderWay(
    list, warp,
    {begins: (step) => step.note === "wgmma", commit: "wgmma commit", wait: "wgmma wait", done: "wgmma passed"});

/** Groups of cp.async, in rows so that none overlap. */
function copyGroups(list, warp) {
  const found = groupsUnderWay(list, warp, {
    begins: (step) => step.op === "cpa",
    commit: "cp.async commit",
    wait: "cp.async wait",
    done: "cp.async wait"
  });
  const free = [];  // by row: where its last group ends
  for (const group of found) {
    group.row = free.findIndex((end) => end <= group.from);
    if (group.row < 0) group.row = free.length;
    free[group.row] = group.to;
  }
  return found;
}

/** Who arrives at a named barrier, and who goes on for it. */
function turnsHandedOn(list) {
  const found = [], arrived = new Map();
  list.forEach((step, i) => {
    if (step.note === "named arrive") arrived.set(step.object, {from: i, giver: step.warp});
    if (step.note !== "named passed" || !arrived.has(step.object)) return;
    found.push({...arrived.get(step.object), to: i, taker: step.warp});
    arrived.delete(step.object);
  });
  return found;
}
