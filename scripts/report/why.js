// A ladder as a path of steps, and one step in full: what it gains, what is written about it, the counts
// that moved, and the difference of the sources.

function drawWhy() {
  const list = rows.filter((row) => agree(row, chosen, [...LADDER, "problem", "cache", "run"]));
  const steps = pathOf(list);
  const shown = steps.find(({row}) => row.kernel === chosen.version) ??
      steps.find(({onSpine}) => onSpine) ?? steps[0];
  const others = list.filter((row) => row.vendor || row.peer);
  if (!shown) return byId("why").replaceChildren(h("p", {}, "No version of ours is here."), ...others.map(badges));
  const best = Math.max(...list.map((row) => row.share ?? 0), 100);
  const links = steps.map((step) => pathLink(step, step === shown, best));
  const path = h("ol", {class: "path"}, ...links.map((link, i) =>
      h("li", {class: steps[i].onSpine ? "" : "side"}, link)));
  roving(links);
  const now = links[steps.indexOf(shown)].parentElement;
  requestAnimationFrame(() => { path.scrollLeft = now.offsetLeft - path.offsetLeft - 40; });  // where it is a strip
  const largest = steps.filter(({onSpine, gain}) => onSpine && gain?.told && gain.gain > 1)
      .sort((a, b) => b.gain.gain - a.gain.gain).slice(0, 3);
  byId("why").replaceChildren(
      largest.length ? h("p", {class: "lead"}, "Short of time? The largest steps to the fastest version: ",
        ...largest.flatMap(({row, gain}, i) => [i ? ", " : "",
          h("a", {href: whyOf(row)}, spoken(row.kernel)), ` (${asMultiple(gain.gain)})`]), ".") : "",
      h("div", {class: "columns"},
        h("nav", {"aria-label": `The ladder ${named(chosen)}`}, path,
          ...others.map((row) => h("p", {class: "note"}, `${spoken(row.kernel)}: ` +
              [row.time_text || row.reason || row.verdict,
               row.share_text && `${row.share_text} of the roof`].filter(Boolean).join(", "))),
          h("p", {class: "note"}, steps.some((step) => !step.onSpine)
              ? "Large: the steps to the fastest version. Small: versions beside that path, for other " +
                "shapes, older GPUs or a lesson." : "")),
        h("article", {id: "step", "aria-labelledby": "step-title"}, ...stepParts(shown, steps))),
      h("h3", {}, "The ladder as a table"), ladderTable(list));
}

function pathLink({row, gain, onSpine}, isShown, most) {
  return h("a", {href: whyOf(row), "aria-current": isShown ? "step" : false, class: row.best ? "best" : ""},
           h("span", {class: "version"}, spoken(row.kernel)),
           h("span", {class: `gain ${gain?.told ? gain.gain > 1 ? "up" : "down" : ""}`},
             gain ? gain.text : row.verdict === "passed" ? "" : row.verdict),
           row.share > 0 ? h("span", {class: "meter", style: `--share: ${100 * row.share / most}%`}) : "",
           onSpine ? h("span", {class: "idea"}, row.idea) : "");
}

function stepParts(step, steps) {
  const {row} = step;
  const before = steps.find((one) => one.row.kernel === chosen.against && one !== step)?.row ?? step.before;
  const gain = gainOf(row, before);
  const head = written(row);
  const spine = steps.filter((one) => one.onSpine);
  const at = spine.indexOf(step);
  const next = at >= 0 ? spine[at + 1] : spine.find((one) => one.row.kernel > row.kernel);
  const select = h("select", {name: "against", onchange: (event) => go({against: event.target.value})},
    h("option", {value: ""}, step.before ? `${spoken(step.before.kernel)} (its Vs)` : "nothing: it is the first"),
    ...steps.filter((one) => one !== step && one.row !== step.before)
        .map((one) => h("option", {value: one.row.kernel}, spoken(one.row.kernel))));
  select.value = before && before !== step.before ? before.kernel : "";
  const description = ["Idea", "Vs", "Bound by", "Limits", "Tile"].filter((name) => head?.[name])
      .flatMap((name) => [h("dt", {}, name), h("dd", {}, head[name])]);
  const texted = h("div", {class: "texts"}, h("p", {class: "note"}, "…"));
  unpack("texts").then((all) => texted.replaceChildren(...writtenParts(row, before, all)),
               () => texted.replaceChildren(h("p", {class: "note"},
                   "This browser can't unpack the sources (DecompressionStream).")));
  return [
    h("h3", {id: "step-title"}, spoken(row.kernel)),
    h("p", {class: "gain-line"},
      gain ? h("strong", {class: gain.told ? gain.gain > 1 ? "up" : "down" : ""}, gain.text) : "",
      before ? ` ${gain ? gain.told ? "than" : "to" : "against"} ${spoken(before.kernel)}` : "The ladder begins here.",
      gain && !gain.told ? `: the run can't tell less than ${row.resolution.toFixed(2)} % apart` : "",
      row.best && row.time ? h("span", {class: "badge"}, "fastest" + (row.tied ? `, ${row.tied}` : "")) : ""),
    h("label", {class: "field"}, "compare with ", select),
    factsTable(row, before),
    description.length ? h("dl", {class: "head"}, ...description) : h("p", {}, row.idea),
    countsPart(row, before),
    texted,
    h("nav", {class: "next", "aria-label": "Reading order"},
      at > 0 ? h("a", {href: whyOf(spine[at - 1].row)}, `← ${spoken(spine[at - 1].row.kernel)}`) : h("span"),
      next ? h("a", {class: "on", href: whyOf(next.row)}, `Read next: ${spoken(next.row.kernel)}` +
               (next.gain ? `, ${next.gain.text} →` : " →"))
           : h("span", {}, row.best && row.time ? "The end of this path: the fastest version." : "")),
  ];
}

function factsTable(row, before) {
  const facts = [
    ["time", (one) => one.time_text], ["speed", (one) => one.speed_text],
    ["share of the roof", (one) => one.share_text && `${one.share_text} of ${one.roof}`],
    [`speed over ${row.against}'s`, (one) => ratioText(one)],
    ["registers per thread", (one) => one.registers === null ? "" : String(one.registers)],
    ["occupancy", (one) => one.occupancy === null ? "" : `${Math.round(100 * one.occupancy)} %`],
  ].filter(([, of]) => of(row) || before && of(before));
  if (!facts.length) return "";
  const columns = [{title: "", kind: "name", cell: ([name]) => name}];
  if (before) columns.push({title: spoken(before.kernel), kind: "number", cell: ([, of]) => of(before)});
  columns.push({title: spoken(row.kernel), kind: "number", cell: ([, of]) => of(row)});
  return tableOf("what was measured of this step", columns, facts, {sorts: false});
}

// ---- Counts

const COUNTS = [
  ["global loads", "global_ld_requests"], ["sectors of global loads", "global_ld_sectors", "global_ld_ideal"],
  ["global stores", "global_st_requests"], ["sectors of global stores", "global_st_sectors", "global_st_ideal"],
  ["global atomics", "global_atomic_requests"],
  ["shared loads", "shared_ld_requests"], ["wavefronts of shared loads", "shared_ld_wavefronts", "shared_ld_ideal"],
  ["shared stores", "shared_st_requests"], ["wavefronts of shared stores", "shared_st_wavefronts", "shared_st_ideal"],
  ["shared atomics", "shared_atomic_requests"], ["asynchronous copies", "async_requests"],
  ["barriers", "barriers"], ["lanes active", "mean_active_lanes"], ["bytes moved", "moved_bytes", "bytes"],
];

// The counts of both at the largest problem at which both were counted, or of `row` alone.
function countsOf(row, before) {
  const of = (one) => report.counts.filter((c) => one && agree(c, one, [...LADDER, "kernel"]));
  const pairs = of(row).map((mine) => [mine, of(before).find((c) => c.problem === mine.problem) ?? null]);
  const both = pairs.filter(([, other]) => other);
  return (both.length ? both : pairs).sort(([a], [b]) => b.bytes - a.bytes)[0];
}

function countText(counts, name, ideal) {
  const value = counts[name];
  if (value === null) return "";
  const exact = Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(1);
  return ideal && counts[ideal] > 0 ? `${exact} (${(value / counts[ideal]).toFixed(1)}×)` : exact;
}

function countsPart(row, before) {
  const found = countsOf(row, before);
  if (!found) return h("p", {class: "note"},
    report.counts.length ? "The host executor has not counted this version in these files."
    : "No counts: give report.py a second CSV, of ./bench --backend=host, and it shows which counts moved.");
  const [mine, other] = found;
  const changed = COUNTS.filter(([, name]) => mine[name] || other?.[name]).map(([title, name, ideal]) => ({
    title, of: (counts) => countText(counts, name, ideal),
    by: other && other[name] ? mine[name] / other[name] : NaN,
    moved: other && mine[name] !== other[name],
  }));
  const moved = other ? changed.filter((one) => one.moved) : changed;
  const columns = [{title: "count", kind: "name", cell: (one) => one.title}];
  if (other) columns.push({title: spoken(other.kernel), kind: "number", cell: (one) => one.of(other)});
  columns.push({title: spoken(mine.kernel), kind: "number", cell: (one) => one.of(mine)});
  if (other) columns.push({title: "", kind: "number", cell: (one) => one.by > 0 ? `${asMultiple(one.by)}` : ""});
  return h("section", {"aria-label": "Counts"},
    h("h4", {}, other ? "The counts that moved" : "Counts"),
    moved.length ? tableOf("counts", columns, moved, {sorts: false})
                 : h("p", {}, "None: the same accesses, in another order or at another time."),
    h("p", {class: "note"}, `Counted on the host executor at ${mine.problem}; in brackets: times the fewest possible.`));
}

// ---- What is written

function writtenParts(row, before, all) {
  const one = all.versions[`${row.family}/${row.kernel}`];
  if (!one) return [h("p", {class: "note"}, "Its source was not in the tree that made this page.")];
  const parts = [];
  if (one.paragraphs) {
    const prose = h("div", {class: "prose"});
    prose.innerHTML = one.paragraphs;  // by ladder_sources.py, which escapes what it is made of
    parts.push(prose);
  }
  for (const {alt, svg: text} of one.drawings)
    parts.push(h("figure", {}, h("img", {alt, src: `data:image/svg+xml,${encodeURIComponent(text)}`}),
                 h("figcaption", {class: "note"}, alt)));
  parts.push(...compiledParts(row, one, all));
  const other = before && all.versions[`${before.family}/${before.kernel}`];
  const code = (label, node) => h("pre", {tabindex: 0, role: "region", "aria-label": label}, node);
  if (other) {
    const lines = differenceOf(other.source, one.source);
    const count = (kind) => lines.filter((line) => line.kind === kind).length;
    parts.push(h("details", {}, h("summary", {},
      `The difference to ${other.file}: +${count("+")} −${count("-")} lines`),
      code(`difference of ${other.file} and ${one.file}`, differenceNode(lines))));
  }
  parts.push(h("details", {}, h("summary", {}, `The source: ${one.file}`),
               code(one.file, h("code", {}, one.source))));
  for (const name of one.headers)
    parts.push(h("details", {}, h("summary", {}, `Its header ${name.replace("kernels/", "")}`),
                 code(name, h("code", {}, all.headers[name]))));
  return parts;
}

// ---- The table

function ladderTable(list) {
  const against = list.find((row) => row.against)?.against;
  const number = (value, unit) => value ? `${Math.round(value)}${unit}` : "";
  return tableOf(`the ladder ${named(chosen)}`, [
    {title: "version", kind: "name version-cell", value: (row) => row.kernel, cell: (row) => h("span", {},
      row.vendor || row.peer ? spoken(row.kernel) : h("a", {href: whyOf(row)}, spoken(row.kernel)),
      h("span", {class: "idea"}, row.idea))},
    {title: "time", kind: "number", value: (row) => row.time, cell: (row) => row.time_text || row.verdict},
    {title: "burst", kind: "number", cell: (row) => row.burst_text},
    {title: "of the roof", kind: "number", value: (row) => row.share, cell: (row) => row.share_text},
    {title: `vs ${against} [95 %]`, kind: "number ratio", value: (row) => row.ratio, cell: ratioText},
    {title: "speed", kind: "number", value: (row) => row.speed, cell: (row) => row.speed_text},
    {title: "registers", kind: "number", cell: (row) => row.registers === null ? "" : String(row.registers)},
    {title: "occupancy", kind: "number", value: (row) => row.occupancy,
     cell: (row) => row.occupancy === null ? "" : `${Math.round(100 * row.occupancy)} %`},
    {title: "SM clock", kind: "number", cell: (row) => number(row.mhz, " MHz")},
    {title: "power", kind: "number", cell: (row) => number(row.watts, " W")},
    {title: "energy", kind: "number", cell: (row) => row.joules_text},
    {title: "GPU", cell: gpuOf},
    {title: "marks", cell: badges},
  ], list, {row: (row) => ({class: row.best ? "best" : ""})});
}
