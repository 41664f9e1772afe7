// The first view: for each family one bar, from its first version to its fastest. A piece of a bar is
// a version that came nearer to the roof than all before it.

// The longest ladder of each family that the run timed against a roof.
function leadLadders() {
  const ofRun = rows.filter((row) => row.run === chosen.run && row.time && row.share > 0 && row.cache !== "hot" &&
                                     report.runs[row.run].main[ladderName(row)] === row.problem);
  return unique(ofRun.map((row) => row.family)).filter((family) => family !== "roofs").map((family) => {
    const ladders = new Map();
    for (const row of ofRun.filter((row) => row.family === family))
      ladders.set(ladderName(row), [...ladders.get(ladderName(row)) ?? [], row]);
    const rungs = (list) => list.filter((row) => !row.vendor && !row.peer).length;
    return [...ladders.values()].filter((list) => list.some((row) => row.simplest))
        .sort((a, b) => rungs(b) - rungs(a))[0];
  }).filter(Boolean);
}

// The versions that were nearer to the roof than all before them.
function records(list) {
  const found = [];
  for (const {row} of pathOf(list)) {
    if (!(row.share > 0) || row.suspect && !row.best) continue;
    const last = found.at(-1);
    if (!last || row.share > last.share && gainOf(row, last).told) found.push(row);
  }
  return found;
}

const percentText = (share) => `${share < 9.95 ? share.toFixed(1) : Math.round(share)}\u00a0%`;

function storyBar(list) {
  const steps = records(list);
  const first = steps[0], best = list.find((row) => row.simplest);
  const vendor = list.find((row) => row.library && row.share > 0);
  const end = Math.max(100, ...list.map((row) => row.share ?? 0));
  const at = (share) => `${100 * share / 108}%`;
  const least = innerWidth > 760 ? 0.055 : 0.1;  // of the bar, for a name to fit
  const pieces = steps.map((row, i) => {
    const from = i ? steps[i - 1].share : 0, wide = (row.share - from) / 108;
    const gain = i ? gainOf(row, steps[i - 1]) : null;
    const piece = h("a", {
      class: `piece ${i ? i % 2 ? "odd" : "even" : "first"}`, href: whyOf(row), tabindex: -1,
      "aria-hidden": true, style: `left: ${at(from)}; width: ${at(row.share - from)}`,
    }, wide > least ? row.short : "");
    tells(piece, [`${spoken(row.kernel)}: ${percentText(row.share)} of the roof`, row.idea,
                  gain && `${gain.text} than ${spoken(steps[i - 1].kernel)}`]);
    return piece;
  });
  if (vendor) {
    const mark = h("span", {class: "vendor-mark", style: `left: ${at(Math.min(vendor.share, end))}`});
    tells(mark, [`${vendor.against}: ${vendor.share_text} of the roof`, vendor.time_text]);
    pieces.push(mark);
  }
  const climbed = gainOf(best, first);
  const against = !vendor ? "" : best.ratio_text === "level" ? `level with ${best.against}`
      : best.ratio ? `${best.ratio_text}× ${best.against}` : "";
  const told = [
    `${percentText(first.share)} → ${percentText(best.share)}`,
    climbed && best !== first ? `${asMultiple(climbed.gain)} over ${first.short}` : "", against,
  ];
  const {dtype, op, problem, roof} = best;
  return h("li", {},
           h("a", {class: "family", href: address("why", {...pick(best), run: best.run})},
             h("strong", {}, best.family),
             h("span", {}, [op, dtype, problem, gpuOf(best)].filter(Boolean).join(" ")),
             h("span", {class: "unseen"}, `, roof ${roof}: ${told.filter(Boolean).join(", ")}`)),
           h("div", {class: "track"}, h("span", {class: "roof-line", style: `left: ${at(100)}`}), ...pieces),
           h("div", {class: "told", "aria-hidden": true},
             h("strong", {}, told[0]), ...told.slice(1).map((text) => h("span", {}, text))));
}

const pick = (row) => Object.fromEntries([...LADDER, "problem", "cache"].map((name) => [name, row[name]]));

function headline(ladders) {
  const bests = ladders.map((list) => list.find((row) => row.simplest));
  const firsts = ladders.map((list) => records(list)[0]);
  const climbs = ladders.map((_, i) => firsts[i].time / bests[i].time);
  const against = bests.filter((row) => row.ratio > 0 || row.ratio_text === "level");
  const ahead = against.filter((row) => row.ratio_text === "level" || row.ratio >= 1).length;
  const span = (values, write) => {
    const ends = [Math.min(...values), Math.max(...values)].map(write);
    return ends[0] === ends[1] ? ends[0] : `${ends[0]} to ${ends[1]}`;
  };
  const {gpu, earlier} = report.runs[chosen.run];
  return h("p", {class: "lead"},
           `On ${gpu}${earlier ? ", by the earlier protocol," : ""} the first versions reach ${span(firsts.map((row) => row.share), percentText)} of the ` +
           `roof, the fastest ${span(bests.map((row) => row.share), percentText)}; the longest climb is ` +
           `${asMultiple(Math.max(...climbs))}. ` +
           (against.length ? `Of ${against.length} with a vendor's library to compare, ` +
                             `${ahead} are level with it or faster.` : ""));
}

function question(href, title, text) {
  return h("a", {class: "card", href}, h("strong", {}, title), h("span", {}, text));
}

// What a kernel does to memory, of a report without times: the largest problem of each ladder.
const DEEDS = [
  ["global loads", "global_ld_sectors", "global_ld_ideal"], ["global stores", "global_st_sectors", "global_st_ideal"],
  ["shared loads", "shared_ld_wavefronts", "shared_ld_ideal"],
  ["shared stores", "shared_st_wavefronts", "shared_st_ideal"], ["bytes moved", "moved_bytes", "bytes"],
];

function countedLadders() {
  const largest = new Map();
  for (const one of report.counts)
    if (!(largest.get(ladderName(one))?.bytes >= one.bytes)) largest.set(ladderName(one), one);
  const list = report.counts.filter((one) => largest.get(ladderName(one)).problem === one.problem);
  const times = (one, name, ideal) => one[ideal] > 0 ? one[name] / one[ideal] : undefined;
  const columns = [
    {title: "version", kind: "name", cell: (one) => h("a", {href: whyOf({...one, cache: "cold"})},
                                                      `${named(one)} ${spoken(one.kernel)}`)},
    {title: "problem", kind: "wide", cell: (one) => one.problem},
    ...DEEDS.map(([title, name, ideal]) => ({
      title, kind: "number", value: (one) => times(one, name, ideal) ?? 0,
      cell: (one) => one[ideal] > 0 ? `${times(one, name, ideal).toFixed(1)}×` : "",
    })),
    {title: "barriers", kind: "number", cell: (one) => one.barriers ? one.barriers.toLocaleString("en") : ""},
  ];
  return [
    h("p", {class: "lead"}, "Counted on the host executor, without a GPU: sectors of global memory, wavefronts of " +
      "shared memory and bytes, each as so many times the fewest possible. Only a GPU can tell times."),
    tableOf("what every version does to memory", columns, list),
  ];
}

function drawStory() {
  const ladders = leadLadders();
  const parts = [];
  if (ladders.length) {
    parts.push(
        headline(ladders),
        h("ol", {class: "story", "aria-label": "From the first version of each family to its fastest"},
          ...ladders.map(storyBar)),
        h("p", {class: "note key-line"}, h("span", {class: "swatch first"}), "the first version",
          h("span", {class: "swatch odd"}), h("span", {class: "swatch even"}),
          "each version that came nearer to the roof ", h("span", {class: "vendor-mark still"}),
          "the vendor's library. The line at 100 % is the roof, which was measured: a copy of the same bytes, " +
          "or a loop of nothing but multiply-adds."));
  } else if (report.counts.length) {
    parts.push(...countedLadders());
  } else {
    parts.push(h("p", {}, "No version was timed against a roof, so there is no climb to show."));
  }
  parts.push(h("div", {class: "questions"},
      question(address("why"), "Why is it faster, and what do I read next?",
               "A ladder step by step: what each gains, what changed in the source, a drawing, the counts."),
      question(address("sizes"), "Which is the fastest for my shape?",
               "Time and share of the roof over size, the fastest version beside the vendor's library."),
      question(address("roof"), "How far from the roof, and what bounds it?",
               "Each version under its roofline, what is left to gain, and what stands in the way."),
      question(address("compare"), "What do two runs or two GPUs differ in?",
               "The same problems side by side, beside what the hardware promises.")));
  byId("story").replaceChildren(...parts);
}
