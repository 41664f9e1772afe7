// What the compiler made of a version: its resources, the occupancy at other block sizes, the mix of its
// loops, and the instructions of each source line.

const WORKS = {
  tensor: "tensor cores", fma: "multiply-adds", arithmetic: "other floating point",
  special: "exponentials, roots, reciprocals", global_load: "loads from global memory",
  global_store: "stores to global memory", shared_load: "loads from shared memory",
  shared_store: "stores to shared memory", copy: "copies that go on by themselves",
  atomic: "atomic operations", local: "local memory: spills, arrays", exchange: "exchange within the warp",
  wait: "barriers and waiting", integer: "addresses and other integers", compare: "comparisons, selections",
  move: "moves, conversions, constants", control: "branches", other: "nothing, or unknown here",
};
const MOST_LOOPS = 6;  // that fit beside each other

const asPercent = (share) => `${Number((100 * share).toPrecision(3))} %`;
const totalOf = (mix) => Object.values(mix).reduce((sum, n) => sum + n, 0);

function compiledParts(row, version, all) {
  const kernels = all.compiled[[...LADDER.map((name) => row[name]), row.kernel].filter(Boolean).join("/")] ?? [];
  if (!kernels.length) return [];
  return [h("section", {class: "compiled", "aria-label": "What the compiler made"},
    h("h4", {}, "What the compiler made"),
    ...kernels.flatMap((kernel) => [
      h("p", {class: "note kernel-name"}, `${kernel.kernel} · ${kernel.architecture}, launched for ${kernel.problem}`),
      resourcesList(kernel), kernel.occupancy.length ? occupancyPart(kernel) : "",
      totalOf(kernel.mix) ? mixPart(kernel) : "", listingPart(kernel, row, version, all),
    ]))];
}

function resourcesList(kernel) {
  const most = kernel.max_threads < 1024 ? `, blocks of at most ${kernel.max_threads} threads` : "";
  const facts = [
    ["Registers", `${kernel.registers} per thread${most}`],
    ["Spills", kernel.local_bytes
        ? `${kernel.local_bytes} B of local memory per thread: spilled registers, or arrays indexed at run time`
        : "none"],
    ["Shared memory", `${kernel.static_shared} B per block static, ${kernel.dynamic_shared} B dynamic`],
  ];
  return h("dl", {class: "head"}, ...facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
}

// A bar for each block size; the one that is chosen is told in words.
function occupancyPart(kernel) {
  const told = h("p", {class: "occupancy-told", role: "status"});
  const bars = kernel.occupancy.map((at) => {
    const now = at.threads === kernel.block;
    const bar = h("button", {type: "button", class: now ? "now" : "", style: `--share: ${100 * at.occupancy}%`,
                             "aria-current": now && "true", "aria-label": `${at.threads} threads: ${asPercent(at.occupancy)}`,
                             onclick: () => tell(at, bar)},
                  h("span", {class: "bar"}), h("span", {}, at.threads));
    return bar;
  });
  const tell = (at, bar) => {
    for (const one of bars) one.setAttribute("aria-pressed", one === bar);
    const larger = at.threads > kernel.max_threads ? "; it would need another __launch_bounds__" : "";
    told.textContent = at.blocks
        ? `${at.threads} threads per block: occupancy ${asPercent(at.occupancy)}, ${at.blocks} ` +
          `block${at.blocks > 1 ? "s" : ""} per SM, limited by ${at.limit}${larger}.`
        : `${at.threads} threads per block: such a block does not run; ${at.limit}${larger}.`;
  };
  roving(bars);
  const first = Math.max(0, kernel.occupancy.findIndex((at) => at.threads === kernel.block));
  tell(kernel.occupancy[first], bars[first]);
  return h("div", {},
    h("div", {class: "occupancy", role: "group", "aria-label": "Occupancy by threads per block"}, ...bars), told,
    h("p", {class: "note"}, "Choose a block size: the registers and the shared memory per block stay as they are. " +
                            "Outlined: as it is launched."));
}

function mixPart(kernel) {
  const loops = kernel.loops.filter((loop) => !loop.waits);
  const shown = loops.slice(0, MOST_LOOPS);
  const mixes = [["kernel", kernel.mix], ...shown.map((loop, i) => [`loop ${i + 1}`, loop.mix])];
  const lines = [...Object.keys(WORKS).filter((work) => kernel.mix[work]), "all"];
  const count = (mix, work) => work === "all" ? totalOf(mix) : mix[work] || "–";
  return h("div", {},
    tableOf("instructions of the kernel and its loops", [
      {title: "instructions", kind: "name", cell: (work) => WORKS[work] ?? work},
      ...mixes.map(([title, mix]) => ({title, kind: "number", cell: (work) => String(count(mix, work))})),
    ], lines, {sorts: false}),
    h("p", {class: "note"}, [
      ...shown.map((loop, i) => `loop ${i + 1}: ${loop.place}${loop.depth > 1 ? ", inside another" : ""}`),
      loops.length > shown.length && `${loops.length - shown.length} more loops`,
      loops.length < kernel.loops.length &&
          `${kernel.loops.length - loops.length} that only wait for memory, copies or other warps`,
    ].filter(Boolean).join("; ")));
}

// The source; a line that instructions came of is a button that shows them.
function listingPart(kernel, row, version, all) {
  const own = `kernels/${row.family}/${version.file}`;
  const sourceOf = (name) => name === own ? version.source : all.headers[name];
  const files = Object.keys(kernel.files).filter(sourceOf).sort((a, b) => (b === own) - (a === own));
  if (!files.length) return "";
  const hasPtx = Object.values(kernel.files).flat().some(([, , ptx]) => ptx.length);
  const source = h("div", {class: "source"});
  const code = h("code", {});
  const made = h("pre", {class: "made", tabindex: 0, role: "region", "aria-label": "Instructions"}, code);
  const select = (name, label, options, onchange) => h("label", {}, label,
    h("select", {name, onchange: (event) => onchange(event.target.value)},
      ...options.map(([value, text]) => h("option", {value}, text))));
  let form = "sass", shown = null;
  const show = (line) => {
    shown = line;
    const [number, sass, ptx] = line;
    code.textContent = (form === "ptx" ? ptx : sass).join("\n") || `none of this form`;
    made.setAttribute("aria-label", `${form.toUpperCase()} of line ${number}`);
    for (const one of source.querySelectorAll("button"))
      one.setAttribute("aria-pressed", Number(one.dataset.line) === number);
  };
  const open = (name) => {
    const of = new Map(kernel.files[name].map((line) => [line[0], line]));
    const buttons = [];
    source.replaceChildren(...sourceOf(name).trimEnd().split("\n").map((text, i) => {
      const line = of.get(i + 1);
      const parts = [h("span", {class: "at"}, i + 1), h("span", {class: "n"}, line ? line[1].length || "ptx" : ""),
                     h("code", {}, text || " ")];
      if (!line) return h("div", {}, ...parts);
      const button = h("button", {type: "button", "data-line": i + 1, onclick: () => show(line)}, ...parts);
      buttons.push([line, button]);
      return button;
    }));
    const [most, button] = buttons.reduce((a, b) => b[0][1].length > a[0][1].length ? b : a);
    button.setAttribute("aria-current", true);
    roving(buttons.map(([, one]) => one));
    button.removeAttribute("aria-current");
    show(most);
    requestAnimationFrame(() => { source.scrollTop = button.offsetTop - source.clientHeight / 2; });
  };
  const part = h("div", {class: "listing-part"},
    h("div", {class: "ask"},
      files.length > 1 ? select("listed", "file ", files.map((name) => [name, name.replace("kernels/", "")]), open) : "",
      hasPtx ? select("form", "instructions ", [["sass", "SASS"], ["ptx", "PTX"]],
                      (value) => { form = value; show(shown); }) : ""),
    h("div", {class: "listing"}, source, made),
    h("p", {class: "note"}, "A number before a line: how many instructions came of it. Choose the line to see them."));
  open(files[0]);
  return part;
}
