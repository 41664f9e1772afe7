"use strict";
// What all parts of the page's script use. scripts/stepper.py joins the parts, in the order of its SCRIPTS.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SECTOR = 32, BANKS = 32, WORD = 4, LANES = 32, ROW = BANKS * WORD;
const SHARED = -1;
const BYTES = {
  f32: 4,
  f16: 2,
  bf16: 2,
  tf32: 4,
  e4m3: 1,
  e5m2: 1,
  e2m1: 0.5,
  f64: 8,
  i4: 0.5,
  i8: 1,
  i32: 4,
  i64: 8,
  u8: 1,
  u32: 4,
  u64: 8
};
const NOUN = {
  f32: "float",
  f16: "half",
  bf16: "bfloat16",
  tf32: "float",
  e4m3: "byte",
  e5m2: "byte",
  e2m1: "nibble",
  f64: "double",
  i4: "nibble",
  i8: "byte",
  i32: "int",
  i64: "long",
  u8: "byte",
  u32: "int",
  u64: "long"
};
const KINDS = [
  {key: "global_load", ops: ["ld"], name: "Loads", one: "load", unit: "sector"},
  {key: "global_store", ops: ["st"], name: "Stores", one: "store", unit: "sector"},
  {key: "global_atomic", ops: ["atom"], name: "Atomics", one: "atomic update", unit: "sector"},
  {key: "shared_load", ops: ["lds"], name: "Shared loads", one: "load from shared memory", unit: "wavefront"},
  {key: "shared_store", ops: ["sts"], name: "Shared stores", one: "store to shared memory", unit: "wavefront"},
  {
    key: "shared_atomic",
    ops: ["atoms"],
    name: "Shared atomics",
    one: "atomic update of shared memory",
    unit: "wavefront"
  },
  {key: "shared_async", ops: ["cpa"], name: "Copies (cp.async)", one: "copy to shared memory", unit: "wavefront"},
  {key: "shared_stmatrix", ops: ["stmatrix"], name: "stmatrix", one: "stmatrix", unit: "wavefront"},
  {
    key: "cluster_load",
    ops: ["ldc"],
    name: "DSMEM loads",
    one: "load from the cluster's shared memory",
    unit: "wavefront"
  },
  {
    key: "cluster_store",
    ops: ["stc"],
    name: "DSMEM stores",
    one: "store to the cluster's shared memory",
    unit: "wavefront"
  },
];
const NARROW = matchMedia("(max-width: 600px)");  // pictures have fewer columns and larger letters
const $ = (id) => document.getElementById(id);
const element = (name, attributes = {}, ...children) => {
  const svg = ["svg", "rect", "path", "text", "line", "g", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
const short = (label) => label.split("_")[0];
const times = (x) => (x >= 9.95     ? Math.round(x) :
                          x >= 1.95 ? Math.round(x * 10) / 10 :
                                      Math.round(x * 100) / 100)
                         .toString();
const isWaste = (units, ideal) => units > 1.2 * ideal;
const FEW_LANES = 16;
const isPoor = (step) =>
    step.kind !== undefined && (isWaste(step.units, step.ideal) || step.lanes.length < FEW_LANES);

/** Bytes from each lane's address to the next one's, where that is the same for all. */
function distance(step) {
  const distances = new Set(step.addresses.slice(1).map((a, i) => a - step.addresses[i]));
  return distances.size === 1 ? [...distances][0] : undefined;
}

const bits = (mask) => {
  let n = 0;
  for (let i = 0; i < LANES; ++i) n += mask >>> i & 1;
  return n;
};

/** Paths, by the shade of what they show. */
function shades(byShade) {
  return [...byShade].map(([shade, d]) => {
    const path = element("path", {class: "shade", d});
    path.style.setProperty("--l", shade);
    return path;
  });
}

// Reads a trace: its steps, the sums of their counts, the names of its mbarriers. What a step counts is the
// host executor's; only where it lies in the pictures is worked out here.

/** [place, first, distance, times, …] as the place and an address for each lane of the mask. */
function spread(numbers, mask) {
  const addresses = [];
  let address = numbers[1];
  addresses.push(address);
  for (let i = 2; i < numbers.length; i += 2) {
    for (let n = 0; n < numbers[i + 1]; ++n) addresses.push(address += numbers[i]);
  }
  const lanes = [];
  for (let lane = 0; lane < LANES; ++lane)
    if (mask >>> lane & 1) lanes.push(lane);
  return {place: numbers[0], addresses, lanes};
}

function readTrace(trace) {
  const steps = [], lastOf = new Map();
  let launch = 0, beside = [];  // steps of warps that are not followed
  for (const raw of trace.steps) {
    if (raw[0] === "l") {
      launch = raw[1];
      continue;
    }
    const step = {launch, type: raw[0]};
    if (raw[0] === "q") {
      [, step.op, step.warp, step.at, step.mask, step.width, step.units, step.ideal] = raw;
      Object.assign(step, spread(raw[8], step.mask));
      if (raw[9]) step.from = spread(raw[9], step.mask);
      step.kind = KINDS.find((kind) => kind.ops.includes(step.op));
      step.shared = step.place === SHARED;
      step.cluster = step.op === "ldc" || step.op === "stc";  // the trace does not tell of which block
      const last = lastOf.get(step.warp);
      step.ofCopy = step.op === "ld" && last !== undefined && last.op === "cpa" && last.at === step.at;
      lastOf.set(step.warp, step);
    } else if (raw[0] === "c") {
      [, step.what, step.warp, step.at, step.mask] = raw;
    } else if (raw[0] === "b") {
      [, step.at] = raw;
      step.warp = -1;
    } else {
      [, step.note, step.warp, step.at, step.mask, step.object, step.detail] = raw;
    }
    if (step.warp >= 0 && !trace.follow.includes(step.warp)) {
      beside.push(step);
      continue;
    }
    step.index = steps.length;
    step.beside = beside;
    beside = [];
    steps.push(step);
  }
  trace.list = steps;
  trace.sums = [Object.fromEntries(KINDS.map((kind) => [kind.key, [0, 0, 0]]))];
  for (const step of steps) {
    const last = trace.sums[trace.sums.length - 1];
    if (!step.kind) {
      trace.sums.push(last);
      continue;
    }
    const [n, units, ideal] = last[step.kind.key];
    trace.sums.push({...last, [step.kind.key]: [n + 1, units + step.units, ideal + step.ideal]});
  }
  for (const step of steps)
    if (step.type === "q" && step.shared && !step.cluster) step.cells = wavefronts(step);
  trace.mostWaves =
      Math.max(0, ...steps.map((step) => step.cells ? Math.max(...step.cells.map((c) => c.wave)) + 1 : 0));
  trace.barriers = nameBarriers(trace, steps);
}

/** Names of mbarriers by where they are, as the source calls them: "full[1]". */
function nameBarriers(trace, steps) {
  const names = new Map(), ranks = new Map(), lines = trace.files.map((file) => file.text.split("\n"));
  const calls = trace.places.map(([file, line]) => /mbarrier_\w+\(\s*&?(\w+\.)*(\w+)/.exec(lines[file][line - 1]));
  // Best is a member's name, and where the kernel itself waits for it; elsewhere it may be a parameter.
  for (const {note, object, at} of steps) {
    if (!note || object < 0 || note.startsWith("named")) continue;
    const call = at >= 0 && calls[at];
    const own = at >= 0 && trace.places[at][0] === 0, waits = note === "passed" || note === "wait";
    const rank = call ? 1 + own + waits + (call[1] ? 3 : 0) : 0;
    if (rank <= (ranks.get(object) ?? -1)) continue;
    ranks.set(object, rank);
    names.set(object, call ? call[2] : "mbarrier");
  }
  const seen = {};
  const many = new Set([...names.values()].filter((name, i, all) => all.indexOf(name) !== i));
  for (const object of [...names.keys()].sort((a, b) => a - b)) {
    const name = names.get(object);
    seen[name] = (seen[name] ?? -1) + 1;
    if (many.has(name)) names.set(object, `${name}[${seen[name]}]`);
  }
  return names;
}

// Where a request's bytes lie: its sectors, and which lane is served in which turn at which bank, by the rules of
// src/host_executor/counting.cpp.

function wavefronts(step) {
  const words = Math.max(1, step.width / WORD);
  const cells = [];
  if (step.op === "cpa") {
    const lines = new Map();
    step.lanes.forEach((lane, i) => {
      const reads = step.from && step.from.place >= 0;
      const line = reads ? Math.floor(step.from.addresses[i] / 128) : 0;
      for (let w = 0; w < words; ++w) {
        if (!lines.has(line)) lines.set(line, new Array(BANKS).fill(0));
        const word = Math.floor(step.addresses[i] / WORD) + w, bank = word % BANKS;
        cells.push({lane, word, bank, line, wave: lines.get(line)[bank]++});
      }
    });
    let begin = 0;
    const begins = new Map();
    for (const [line, depth] of lines) {
      begins.set(line, begin);
      begin += Math.max(...depth);
    }
    for (const cell of cells) cell.wave += begins.get(cell.line);
    return cells;
  }
  const load = step.op === "lds";
  const atomic = step.op === "atoms";
  const of = new Map(step.lanes.map((lane, i) => [lane, step.addresses[i]]));
  const alike = (bit) => step.lanes.every((lane) => !of.has(lane ^ bit) || of.get(lane ^ bit) === of.get(lane));
  let part = LANES / words;
  if (load && words > 1 && (alike(1) || alike(2))) part *= 2;
  let begin = 0;
  for (let first = 0; first < LANES; first += part) {
    const depth = new Array(BANKS).fill(0), known = new Map();
    for (let lane = first; lane < first + part; ++lane) {
      if (!of.has(lane)) continue;
      for (let w = 0; w < words; ++w) {
        const word = Math.floor(of.get(lane) / WORD) + w, bank = (word % BANKS + BANKS) % BANKS;
        if (known.has(word) && !atomic) {
          known.get(word).more.push(lane);
          continue;
        }
        const cell = {lane, word, bank, wave: begin + depth[bank]++, more: []};
        known.set(word, cell);
        cells.push(cell);
      }
    }
    begin += Math.max(...depth);
  }
  return cells;
}

function sectorsOf(step) {
  const found = new Set();
  for (const address of step.addresses) {
    for (let at = address - address % SECTOR; at < address + step.width; at += SECTOR) found.add(at / SECTOR);
  }
  return [...found].sort((a, b) => a - b);
}

// Says in a sentence what a step does.

function arrayOf(trace, place) {
  return place >= 0 ? trace.buffers[place] :
                      {name: place === SHARED ? "shared memory" : "device memory", dtype: "f32"};
}

function elementName(trace, place, address) {
  const array = arrayOf(trace, place);
  const index = Math.floor(address / (BYTES[array.dtype] || 4));
  if (array.shape && array.shape.length === 2)
    return `${array.name}[${Math.floor(index / array.shape[1])}][${index % array.shape[1]}]`;
  return `${array.name}[${index}]`;
}

/** How the lanes' addresses lie: "side by side", "512 bytes apart". */
function pattern(step) {
  if (step.addresses.length === 1) return "";
  const d = distance(step);
  if (d === 0) return ", the same place for all lanes";
  if (d === step.width) return " that lie side by side";
  if (d !== undefined) return `, ${Math.abs(d).toLocaleString("en")} bytes apart`;
  if (step.shared) return "";
  const distances = new Set(step.addresses.slice(1).map((a, i) => a - step.addresses[i]));
  if ([...distances].every((d) => d === 0 || d === step.width))
    return " that lie side by side, some wanted by several lanes";
  const runs = step.addresses.slice(1)
                   .filter((a, i) => a - step.addresses[i] !== step.width && a !== step.addresses[i])
                   .length +
      1;
  return runs < step.addresses.length ? `, in ${runs} pieces` : ", scattered";
}

const mark = (text, bad) => element("span", {class: bad ? "bad" : "good"}, text);

function sayRequest(trace, step) {
  const out = [];
  const waste = isWaste(step.units, step.ideal);
  const dtype = step.shared ? "" : arrayOf(trace, step.place).dtype;
  const size = BYTES[dtype] || (step.width >= WORD ? WORD : step.width);
  const each = step.width / size;
  const noun = step.shared ? (size === WORD ? "word" : "value") : NOUN[dtype] || "word";
  const amount = each > 1 && Number.isInteger(each) ?
      `${step.lanes.length} × ${step.width} bytes (${each} ${noun}s for each lane)` :
      plural(step.lanes.length, noun);
  if (step.op === "cpa") {
    out.push(`Warp ${step.warp} starts a copy of ${amount} into shared memory and does not wait for it: `);
  } else {
    const verb = {
      ld: "loads",
      st: "stores",
      atom: "updates",
      lds: "loads",
      sts: "stores",
      atoms: "updates",
      stmatrix: "stores",
      ldc: "loads",
      stc: "stores"
    }[step.op];
    const where = {
      ld: " from ",
      st: " to ",
      atom: " of ",
      lds: " from ",
      sts: " to ",
      atoms: " of ",
      stmatrix: " to ",
      ldc: " from ",
      stc: " to "
    }[step.op];
    out.push(
        step.ofCopy ? `The copies of warp ${step.warp} read ` : `Warp ${step.warp} ${verb} `, `${amount}${where}`,
        step.cluster    ? "the cluster's shared memory" :
            step.shared ? "shared memory" :
                          element("b", {}, arrayOf(trace, step.place).name),
        `${step.cluster ? "" : pattern(step)}: `);
  }
  const unit = step.shared ? "turn" : "sector";
  const count = plural(step.units, unit);
  out.push(mark(waste ? `${count} where ${step.ideal} would do.` : `${count}, the fewest possible.`, waste));
  if (step.shared && waste && step.cells) {
    const busiest = new Map();
    for (const cell of step.cells) busiest.set(cell.bank, (busiest.get(cell.bank) || 0) + 1);
    const banks = busiest.size;
    out.push(
        banks === 1 ? ` All of them lie in bank ${[...busiest.keys()][0]}${
                          distance(step) % ROW === 0 ? `: 32 banks of 4 bytes are ${ROW} bytes` : ""}.` :
                                                       ` They lie in only ${banks} of the 32 banks.`);
  } else if (step.shared && step.cells && step.units === 1 && step.lanes.length > 1) {
    const words = new Set(step.cells.map((cell) => cell.word)).size;
    out.push(
        words === 1 ? " All lanes get the same word." :
            words === new Set(step.cells.map((c) => c.bank)).size && words > 1 ?
                      ` Every word is in a bank of its own.` :
                      "");
  } else if (!step.shared && waste) {
    const used = step.lanes.length * step.width, moved = step.units * SECTOR;
    out.push(` ${moved.toLocaleString("en")} bytes travel, ${used.toLocaleString("en")} are used.`);
  }
  if (step.lanes.length < LANES) {
    const some = `${step.lanes.length} of 32 lanes ${step.lanes.length === 1 ? "takes" : "take"} part.`;
    out.push(" ", step.lanes.length < FEW_LANES ? mark(`Only ${some}`, true) : some);
  }
  return {bad: isPoor(step), good: !isPoor(step), out};
}

function sayNote(trace, step) {
  const barrier =
      trace.barriers.has(step.object) ? `the mbarrier ${trace.barriers.get(step.object)}` : "an mbarrier";
  const who = `Warp ${step.warp}`;
  const groups = step.detail === 0 ?
      "all its copies" :
      `all its copies but those of the ${plural(step.detail, "latest group")}`.replace(
          "the 1 latest", "the latest");
  switch (step.note) {
    case "cp.async commit":
      return `${who} closes a group of copies. They are on their way; it goes on.`;
    case "cp.async wait":
      return `${who} waits until ${groups} have arrived.`;
    case "arrive":
      return step.detail > 0 ?
          `${who} arrives at ${barrier} and says that ${step.detail.toLocaleString("en")} bytes will come.` :
          `${who} arrives at ${barrier}: it is done with that buffer.`;
    case "wait":
      return `${who} has to wait at ${barrier}: what it needs is not there yet.`;
    case "passed":
      return step.detail === 0 ? `${who} goes on past ${barrier}: in its first round there is nobody to wait for.` :
                                 `${who} goes on past ${barrier}: its phase has ended.`;
    case "phase":
      return `Phase ${step.detail} of ${barrier} ends: those who wait for it may go on.`;
    case "bulk load":
      return `${who} asks the copy engine (TMA) for ${step.detail.toLocaleString("en")} bytes, and does not wait. ${
          barrier[0].toUpperCase()}${barrier.slice(1)} will tell.`;
    case "landed":
      return `The copy engine has written ${step.detail.toLocaleString("en")} bytes to shared memory, and tells ${
          barrier}.`;
    case "bulk store":
      return `${who} asks the copy engine to store ${step.detail.toLocaleString("en")} bytes.`;
    case "bulk commit":
      return `${who} closes a group of stores.`;
    case "bulk wait":
      return `${who} waits for its stores.`;
    case "wgmma":
      return `${who} asks the tensor cores for a product of tiles in shared memory (wgmma), and does not wait.`;
    case "wgmma commit":
      return `${who} closes a group of products.`;
    case "wgmma wait":
      return `${who} waits for ${
          step.detail === 0 ? "all its products" : `all but ${step.detail} of its groups of products`}.`;
    case "wgmma passed":
      return `${who} goes on: its products are done.`;
    case "named arrive":
      return `${who} arrives at named barrier ${step.object}, and goes on: those who wait there for it may follow.`;
    case "named wait":
      return `${who} comes to named barrier ${step.object}, and waits until ${step.detail} threads have come.`;
    case "named passed":
      return `${who} goes on past named barrier ${step.object}: all have come.`;
  }
  return step.note;
}

function say(trace, step) {
  if (step.type === "q") return sayRequest(trace, step);
  if (step.type === "b")
    return {out: ["All warps of the block meet here (__syncthreads): no one goes on before everyone has come."]};
  if (step.type === "c") {
    const lanes = step.mask === 0xffffffff ? "the lanes" : `${bits(step.mask)} lanes`;
    if (step.what === "__syncwarp") return {out: [`Warp ${step.warp}: ${lanes} meet (__syncwarp).`]};
    if (step.what.startsWith("__shfl"))
      return {
        out: [`Warp ${step.warp}: ${lanes} hand values to each other from register to register (${
            step.what}). No memory is touched.`]
      };
    return {out: [`Warp ${step.warp}: ${lanes} do ${step.what} together.`]};
  }
  return {out: [sayNote(trace, step)]};
}

// What has been touched up to a step, and where the values that lie there come from.

class History {
  constructor(trace) {
    this.trace = trace;
    this.version = 0;  // rises with each change, so that a picture knows whether it is of today
    this.forget();
  }

  forget() {
    this.done = 0;
    this.hands = new Map();     // by warp and lane: what it last loaded
    this.words = new Map();     // of shared memory: what each holds
    this.arrays = new Map();    // by place: what was touched, by address
    this.versions = new Map();  // by place
    ++this.version;
  }

  goTo(at) {
    if (at + 1 < this.done) this.forget();
    while (this.done <= at) {
      const next = this.trace.list[this.done++];
      for (const other of next.beside) this.remember(other);
      this.remember(next);
    }
  }

  touched(place) {
    return this.arrays.get(place) || new Map();
  }
  versionOf(place) {
    return `${this.versions.get(place) || 0} ${this.version}`;
  }

  /** The shade of a value is the lane that first held it. `from` is what the lane had loaded last: an address
      of an array, or what a word of shared memory held. */
  remember(step) {
    if (step.type !== "q") return;
    const {place} = step, reads = step.op === "ld" || step.op === "lds" || step.op === "ldc";
    if (!this.arrays.has(place)) this.arrays.set(place, new Map());
    this.versions.set(place, (this.versions.get(place) || 0) + 1);
    step.lanes.forEach((lane, i) => {
      const key = step.warp * LANES + lane, address = step.addresses[i], word = Math.floor(address / WORD);
      let shade = lane;
      if (step.cluster) {
        if (reads) this.hands.set(key, {shade});
        return;
      }
      if (step.op === "ld" && !step.ofCopy) this.hands.set(key, {shade: lane, place, address, width: step.width});
      const hand = this.hands.get(key);
      if (step.op === "lds") {
        const held = this.words.get(word);
        shade = held ? held.shade : lane;
        this.hands.set(key, {shade, word, held});
      } else if (!reads && hand && step.op !== "cpa") {
        shade = hand.shade;
      }
      const by = {shade, lane, warp: step.warp, width: step.width, op: step.op};
      const from = (bytes) => {
        if (step.op === "cpa") {
          const inside = step.from && step.from.place >= 0;  // else it is past an edge, and zeros are written
          return inside ? {place: step.from.place, address: step.from.addresses[i] + bytes, width: WORD} :
                          undefined;
        }
        const exact = hand && hand.place !== undefined && hand.width >= step.width;
        return exact ? {...hand, address: hand.address + bytes, width: WORD} : hand;
      };
      if (step.shared && !reads) {
        for (let w = 0; w < Math.max(1, step.width / WORD); ++w)
          this.words.set(word + w, {...by, from: from(w * WORD)});
      }
      this.arrays.get(place).set(address, {...by, from: from(0)});
    });
  }
}

// A picture's cells can be pointed at, by a mouse, a finger, or the keyboard: a tip tells what one holds.

class Cells {
  /** `at(x, y)` is the column and row at a place of the picture, or null; `box(column, row)` where one lies,
      as x, y, width, height; `tell(column, row)` what is there. */
  constructor(svg, {columns, rows, at, box, tell}) {
    Object.assign(this, {svg, columns, rows, at, box, tell});
    this.cell = null;
    this.outline = element("path", {class: "chosen"});
    svg.append(this.outline);
    svg.setAttribute("tabindex", "0");
    const point = (event) => {
      const {x, y} = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      this.choose(this.at(x, y));
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", () => this.choose(null));
    svg.addEventListener("blur", () => this.choose(null));
    svg.addEventListener("focus", () => svg.matches(":focus-visible") && this.choose([0, 0]));
    svg.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const [dx, dy] = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key] ||
        [0, 0];
    if (!dx && !dy) return;
    event.preventDefault();
    event.stopPropagation();
    const [column, row] = this.cell || [0, 0];
    const within = (n, of) => Math.max(0, Math.min(of - 1, n));
    this.choose([within(column + dx, this.columns), within(row + dy, this.rows)]);
  }

  choose(cell) {
    if (!cell && !this.cell) return;
    this.cell = cell;
    this.refresh();
  }

  /** What the cell holds now: a step may have changed it. */
  refresh(always = true) {
    if (!this.cell && !always) return;
    const tip = $("tip");
    if (!this.cell) {
      this.outline.removeAttribute("d");
      tip.textContent = "";
      return;
    }
    const [x, y, width, height] = this.box(...this.cell);
    this.outline.setAttribute("d", `M${x} ${y}h${width}v${height}h${- width}z`);
    tip.textContent = this.tell(...this.cell);
    const box = this.outline.getBoundingClientRect();
    const left = Math.min(box.x, innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 6, above = box.top - tip.offsetHeight - 6;
    const controls = $("controls").getBoundingClientRect().top;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below + tip.offsetHeight > controls ? above : below}px`;
  }
}

const wordName = (word) => `row ${Math.floor(word / BANKS)}, bank ${(word % BANKS + BANKS) % BANKS}`;

/** "in[1][5]": what a lane had loaded, or what was copied. */
function originName(trace, from) {
  if (from.place !== undefined) {
    const size = BYTES[arrayOf(trace, from.place).dtype] || WORD, more = Math.floor(from.width / size) - 1;
    return elementName(trace, from.place, from.address) + (more > 0 ? ` and ${more} after it` : "");
  }
  if (from.word === undefined) return "the cluster's shared memory";
  const held = from.held;
  return `shared memory, ${wordName(from.word)}${held ? ` (${writerName(trace, held, false)})` : ""}`;
}

/** "stored by lane 5 of warp 1, which had loaded in[1][5] last". */
function writerName(trace, {lane, warp, op, from}, further = true) {
  if (op === "cpa") return from ? `copied from ${originName(trace, from)}` : "set to zero by a copy";
  const known = from && (further || from.place !== undefined);
  return `${op.startsWith("atom") ? "updated" : "stored"} by lane ${lane} of warp ${warp}${
      known ? `, which had loaded ${originName(trace, from)} last` : ""}`;
}

// The lanes of a warp: who takes part, and the shade of what each holds.

class Lanes {
  constructor(trace, parent) {
    this.trace = trace;
    const across = NARROW.matches ? LANES / 2 : LANES, pitch = 38, rows = LANES / across;
    const x = (lane) => lane % across * 20 + 1, y = (lane) => Math.floor(lane / across) * pitch + 1;
    const svg = element("svg", {viewBox: `0 0 ${across * 20} ${rows * pitch - 2}`, role: "img"});
    this.lanes = Array.from({length: LANES}, (_, lane) => {
      const box = element("rect", {class: "lane", x: x(lane), y: y(lane), width: 18, height: 18, rx: 2});
      const number = element("text", {class: "lane-number", x: x(lane) + 9, y: y(lane) + 12.5}, lane);
      const register = element("rect", {class: "register", x: x(lane), y: y(lane) + 22, width: 18, height: 11});
      svg.append(box, number, register);
      return {box, number, register};
    });
    this.svg = svg;
    this.caption = element("div", {class: "caption"});
    this.cells = new Cells(svg, {
      columns: across,
      rows,
      at: (px, py) =>
          [Math.max(0, Math.min(across - 1, Math.floor(px / 20))),
           Math.max(0, Math.min(rows - 1, Math.floor(py / pitch)))],
      box: (column, row) => [column * 20 + 1, row * pitch + 1, 18, 33],
      tell: (column, row) => this.tell(row * across + column)
    });
    parent.replaceChildren(
        element("h3", {}, element("b", {}, "Lanes"), " of the warp, and what each one holds"), svg, this.caption);
  }

  tell(lane) {
    const hand = this.hand(lane);
    return this.warp < 0 ? "This step is of no single warp." :
        hand ? `Lane ${lane} of warp ${this.warp}: it has loaded ${originName(this.trace, hand)} last.` :
               `Lane ${lane} of warp ${this.warp}: it has loaded nothing yet.`;
  }

  hand(lane) {
    return this.warp >= 0 && this.history.hands.get(this.warp * LANES + lane);
  }

  show(step, history) {
    const mask = step.mask ?? (step.type === "b" ? 0xffffffff : 0);
    this.history = history;
    this.warp = step.warp;
    this.lanes.forEach(({box, number, register}, lane) => {
      const on = mask >>> lane & 1 ? " on" : "";
      box.setAttribute("class", `lane${on}`);
      number.setAttribute("class", `lane-number${on}`);
      const hand = this.hand(lane);
      register.setAttribute("class", hand ? "shade" : "register");
      if (hand) register.style.setProperty("--l", hand.shade);
    });
    this.svg.setAttribute("aria-label", `${bits(mask)} of 32 lanes take part; the arrows tell what each holds`);
    this.caption.textContent = step.type === "q" && !step.cluster ? this.wants(step) : "";
    this.cells.refresh(false);
  }

  /** "lane 0: in[0][0] · lane 1: in[0][1] · … lane 31: in[0][31]" */
  wants(step) {
    const bank = (lane) =>
        (step.cells.find((cell) => cell.lane === lane || (cell.more || []).includes(lane)) || {}).bank;
    const what = (i) =>
        step.shared ? `bank ${bank(step.lanes[i])}` : elementName(this.trace, step.place, step.addresses[i]);
    const last = step.lanes.length - 1;
    const some = [...new Set([0, 1, last])].filter((i) => i <= last);
    return some.map((i) => `${i === last && last > 2 ? "… " : ""}lane ${step.lanes[i]}: ${what(i)}`).join(" · ");
  }
}

// The arrays in global memory, as lines of sectors.

/** Lines of sectors of an array: its rows, or stretches of it. Only those that the trace touches. */
class MemoryView {
  constructor(trace, array, place, sectors, parent) {
    this.trace = trace;
    this.place = place;
    this.array = array;
    const size = BYTES[array.dtype] || 4;
    const rowBytes = array.shape && array.shape.length === 2 ? array.shape[1] * size : 0;
    sectors.sort((a, b) => a - b);
    const columns = sectors.map((s) => Math.floor(s * SECTOR % rowBytes / SECTOR));
    this.byRows = rowBytes > 0 && rowBytes % SECTOR === 0 && Math.max(...columns) - Math.min(...columns) < 40;
    this.lineSectors = this.byRows ? rowBytes / SECTOR : 32;
    this.first = this.byRows ? Math.min(...columns) : 0;
    this.across = this.byRows ? Math.max(...columns) - this.first + 1 : 32;
    const lines = [...new Set(sectors.map((s) => Math.floor(s / this.lineSectors)))];
    this.lineAt = new Map(lines.map((line, i) => [line, i]));
    this.lines = lines;
    this.shown = Math.min(lines.length, 33);
    this.height = this.shown > 20 ? 6.5 : 10;
    this.left = 62;
    this.sector = Math.min(56, (640 - this.left - 4) / this.across);
    this.top = -1;
    const shape = array.shape ? array.shape.join(" × ") + " " : "";
    const width = this.left + this.across * this.sector + 4;
    this.svg = element("svg", {
      viewBox: `0 0 ${width} ${this.shown * this.height + 2}`,
      preserveAspectRatio: "xMinYMin",
      role: "img"
    });
    this.ground = element("g");
    this.history = element("g");
    this.now = element("path", {class: "sector"});
    this.used = element("path", {class: "used"});
    this.svg.append(this.ground, this.history, this.now, this.used);
    const perSector = SECTOR / size, wide = this.sector / perSector;
    this.cells = new Cells(this.svg, {
      columns: this.across * perSector,
      rows: this.shown,
      at: (x, y) => {
        const column = Math.floor((x - this.left) / wide), row = Math.floor(y / this.height);
        return column >= 0 && column < this.across * perSector && row >= 0 && row < this.shown ? [column, row] :
                                                                                                 null;
      },
      box: (column, row) => [this.left + column * wide, row * this.height, wide, this.height - 0.6],
      tell: (column, row) =>
          this.tell((this.lines[this.top + row] * this.lineSectors + this.first) * SECTOR + column * size)
    });
    const box = element(
        "div", {class: width < 300 ? "narrow" : "wide"},
        element("h3", {}, element("b", {}, array.name), ` ${shape}${array.dtype}, ${array.role}`), this.svg);
    box.style.setProperty("--width", `${width}px`);
    this.svg.style.maxWidth = `${width}px`;
    parent.append(box);
  }

  line(byte) {
    return this.lineAt.get(Math.floor(byte / SECTOR / this.lineSectors));
  }
  x(byte) {
    return this.left + (byte / SECTOR % this.lineSectors - this.first) * this.sector;
  }
  box(byte, bytes, inset) {
    const h = this.height - 2 * inset;
    return `M${this.x(byte).toFixed(2)} ${(this.line(byte) - this.top) * this.height + inset}h${
        (bytes / SECTOR * this.sector).toFixed(2)}v${h}h${(-bytes / SECTOR * this.sector).toFixed(2)}z`;
  }
  visible(byte) {
    const line = this.line(byte);
    return line !== undefined && line >= this.top && line < this.top + this.shown;
  }

  tell(address) {
    const name = elementName(this.trace, this.place, address);
    for (const [first, by] of this.touchedBy) {
      if (address < first || address >= first + by.width) continue;
      if (by.op !== "ld") return `${name}: ${writerName(this.trace, by)}.`;
      return `${name}: loaded by lane ${by.lane} of warp ${by.warp}.`;
    }
    return `${name}: no lane has touched it yet.`;
  }

  show(step, history) {
    this.touchedBy = history.touched(this.place);
    let top = Math.max(0, this.top);
    if (step) {
      const rows = step.addresses.map((a) => this.line(a)).filter((line) => line !== undefined);
      const low = Math.min(...rows), high = Math.max(...rows);
      if (low < top || high >= top + this.shown) top = Math.max(0, Math.min(low, this.lines.length - this.shown));
    }
    if (top !== this.top) {
      this.top = top;
      this.drawn = "";
      this.drawGround();
    }
    if (this.drawn !== history.versionOf(this.place)) {
      this.drawn = history.versionOf(this.place);
      const byShade = new Map();
      for (const [address, {shade, width}] of history.touched(this.place)) {
        if (this.visible(address)) byShade.set(shade, (byShade.get(shade) || "") + this.box(address, width, 0.8));
      }
      this.history.replaceChildren(...shades(byShade));
    }
    let now = "", used = "";
    if (step) {
      for (const sector of sectorsOf(step))
        if (this.visible(sector * SECTOR)) now += this.box(sector * SECTOR, SECTOR, 0.3);
      for (const address of step.addresses)
        if (this.visible(address)) used += this.box(address, step.width, 1);
    }
    this.now.setAttribute("d", now);
    this.used.setAttribute("d", used);
    const sectors = step ? sectorsOf(step).length : 0;
    this.svg.setAttribute(
        "aria-label",
        step ? `${plural(sectors, "sector")} of ${this.array.name} touched by this step` :
               `this step does not touch ${this.array.name}`);
    this.cells.refresh(false);
  }

  drawGround() {
    let d = "";
    const labels = [];
    for (let i = 0; i < this.shown; ++i) {
      const line = this.lines[this.top + i];
      const y = i * this.height;
      for (let s = 0; s < this.across; ++s)
        d += `M${(this.left + s * this.sector).toFixed(2)} ${y}h${this.sector.toFixed(2)}v${this.height - 0.6}h${
            (-this.sector).toFixed(2)}z`;
      if (i === 0 || i === this.shown - 1 || this.height > 8 && i % 2 === 0 && i < this.shown - 2) {
        const text = element("text", {x: 0, y: y + this.height - 1.2});
        text.textContent = this.byRows ?
            `row ${line}` :
            `[${(line * this.lineSectors * SECTOR / (BYTES[this.array.dtype] || 4)).toLocaleString("en")}]`;
        labels.push(text);
      }
    }
    this.ground.replaceChildren(element("path", {class: "ground", d}), ...labels);
  }
}

/** A view of each array that the trace touches. */
function memoryViews(trace, parent) {
  parent.replaceChildren();
  const views = [];
  trace.buffers.forEach((array, place) => {
    const sectors = new Set();
    for (const step of trace.list) {
      for (const one of [step, ...step.beside])
        if (one.place === place) sectorsOf(one).forEach((s) => sectors.add(s));
    }
    if (sectors.size > 0) views.push(new MemoryView(trace, array, place, [...sectors], parent));
  });
  return views;
}

// Shared memory: the queue of a request at the 32 banks, and what each word holds.

class Banks {
  constructor(trace, mostWaves, parent) {
    this.trace = trace;
    parent.replaceChildren();
    const words = new Set();
    for (const step of trace.list) {
      for (const one of [step, ...step.beside]) {
        if (!one.shared || one.cluster) continue;
        for (const address of one.addresses) {
          for (let at = address; at < address + one.width; at += ROW) words.add(Math.floor(at / ROW));
          words.add(Math.floor((address + one.width - 1) / ROW));
        }
      }
    }
    this.rows = [...words].sort((a, b) => a - b);
    if (this.rows.length === 0) {
      const engine = trace.list.some((step) => step.note === "bulk load");
      parent.append(element(
          "h3", {}, element("b", {}, "Shared memory"),
          engine ? ": the copy engine fills it and the tensor cores read it, past the lanes" :
                   " is not used by this version"));
      return;
    }
    const most = Math.min(mostWaves, LANES);
    this.cell = 18;
    this.waveHeight = most > 16 ? 8.5 : 12;
    parent.append(element(
        "h3", {}, element("b", {}, "Shared memory"),
        ": lanes queue at its 32 banks, a row is a turn"));
    const margin = NARROW.matches ? 30 : 0;  // for larger letters
    const topLeft = {preserveAspectRatio: "xMinYMin", role: "img"};
    this.left = -margin;
    this.queue =
        element("svg", {viewBox: `${- margin} 0 ${620 + margin} ${14 + most * this.waveHeight}`, ...topLeft});
    parent.append(this.queue);
    this.rowAt = new Map(this.rows.map((row, i) => [row, i]));
    this.shown = Math.min(this.rows.length, 34);
    this.height = this.rows.length > 20 ? 5 : 8;
    parent.append(element("h3", {}, "What shared memory holds (a row is 128 bytes, one word in each bank)"));
    this.tile =
        element("svg", {viewBox: `${- margin} 0 ${620 + margin} ${this.shown * this.height + 2}`, ...topLeft});
    parent.append(this.tile);
    this.tileGround = element("g");
    this.tileCells = element("g");
    this.tileNow = element("path", {class: "outline"});
    this.tile.append(this.tileGround, this.tileCells, this.tileNow);
    this.cells = new Cells(this.tile, {
      columns: BANKS,
      rows: this.shown,
      at: (x, y) => {
        const column = Math.floor((x - 40) / this.cell), row = Math.floor(y / this.height);
        return column >= 0 && column < BANKS && row >= 0 && row < this.shown ? [column, row] : null;
      },
      box: (column, row) => [40 + column * this.cell, row * this.height, this.cell - 1, this.height - 1],
      tell: (column, row) => this.tell(this.rows[this.top + row] * BANKS + column)
    });
    this.top = -1;
  }

  tell(word) {
    const by = this.words.get(word), name = wordName(word);
    return `${name[0].toUpperCase()}${name.slice(1)}: ${by ? writerName(this.trace, by) : "nothing yet"}.`;
  }

  show(step, history) {
    if (!this.rows.length) return;
    this.words = history.words;
    const x = (bank) => 40 + bank * this.cell;
    this.queue.replaceChildren();
    for (let bank = 0; bank < BANKS; ++bank) {
      const text = element("text", {class: "lane-number bank", x: x(bank) + 9, y: 9});
      text.textContent = bank;
      this.queue.append(text);
    }
    const now = step.cells || [];
    const shown =
        this.trace.list.slice(0, step.index + 1).findLast((one) => one.cells);  // or the last one's, faint
    const cells = shown ? shown.cells : [];
    this.queue.classList.toggle("past", !step.cells);
    const waves = cells.length ? Math.max(...cells.map((c) => c.wave)) + 1 : 0;
    this.queue.setAttribute(
        "aria-label",
        now.length ? `${plural(waves, "wavefront")} for this request` : "this step does not use shared memory");
    for (const cell of cells) {
      if (cell.wave >= LANES) continue;
      const y = 13 + cell.wave * this.waveHeight,
            late = cell.wave > 0 && isWaste(shown.units, shown.ideal) ? " late" : "";
      const group = element("g", {class: "drop"});
      group.style.setProperty("--wave", cell.wave);
      group.append(element(
          "rect", {class: `cell${late}`, x: x(cell.bank), y, width: this.cell - 1, height: this.waveHeight - 1}));
      const text = element("text", {class: `cell-lane${late}`, x: x(cell.bank) + 8.5, y: y + this.waveHeight - 2});
      text.textContent = cell.more && cell.more.length ? `${cell.lane}+` : cell.lane;
      group.append(text);
      this.queue.append(group);
    }
    for (const wave of [0, waves - 1]) {
      if (wave < 0 || waves === 0 || wave >= LANES) continue;
      const label = element("text", {x: this.left, y: 13 + wave * this.waveHeight + this.waveHeight - 2});
      label.textContent = `turn ${wave + 1}`;
      this.queue.append(label);
    }
    // The rows around those that are touched now
    const rows = now.map((cell) => this.rowAt.get(Math.floor(cell.word / BANKS)));
    let top = Math.max(0, this.top);
    if (rows.length) {
      const low = Math.min(...rows), high = Math.max(...rows);
      if (low < top || high >= top + this.shown) top = Math.min(low, this.rows.length - this.shown);
    }
    const row = (word) => this.rowAt.get(Math.floor(word / BANKS)) - top;
    if (top !== this.top) {
      this.top = top;
      let d = "";
      for (let i = 0; i < this.shown; ++i)
        d += `M40 ${i * this.height}h${BANKS * this.cell}v${this.height}h${- BANKS * this.cell}z`;
      this.tileGround.replaceChildren(element("path", {class: "ground", d}));
      this.drawn = "";
    }
    const box = (word) => `M${x((word % BANKS + BANKS) % BANKS)} ${row(word) * this.height}h${this.cell - 1}v${
        this.height - 1}h${1 - this.cell}z`;
    const inView = (word) => row(word) >= 0 && row(word) < this.shown;
    if (this.drawn !== history.versionOf(SHARED)) {
      this.drawn = history.versionOf(SHARED);
      const byShade = new Map();
      for (const [word, {shade}] of history.words) {
        if (inView(word)) byShade.set(shade, (byShade.get(shade) || "") + box(word));
      }
      this.tileCells.replaceChildren(...shades(byShade));
    }
    this.tileNow.setAttribute("d", now.filter((cell) => inView(cell.word)).map((cell) => box(cell.word)).join(""));
    this.tile.setAttribute(
        "aria-label",
        `${history.words.size} words of shared memory have been written; the arrows tell what each holds`);
    this.cells.refresh(false);
  }
}

// The running counts.

class Counts {
  constructor(trace, mostUnits, parent) {
    this.trace = trace;
    this.mostUnits = mostUnits;
    parent.replaceChildren(element("caption", {class: "hidden"}, "Counts so far"));
    const last = trace.sums[trace.sums.length - 1];
    this.rows = KINDS.filter((kind) => last[kind.key][0] > 0).map((kind) => {
      const fill = element("i"), bar = element("div", {}, fill);
      const text = element("td"), factor = element("td", {class: "times"});
      parent.append(element(
          "tr", {}, element("th", {scope: "row"}, kind.name), element("td", {class: "bar"}, bar), text, factor));
      return {kind, bar, fill, text, factor};
    });
  }

  show(at) {
    const sums = this.trace.sums[at + 1];
    for (const row of this.rows) {
      const [, units, ideal] = sums[row.kind.key];
      row.bar.style.setProperty("--units", units / this.mostUnits);
      row.bar.style.visibility = units ? "visible" : "hidden";
      row.bar.classList.toggle("over", isWaste(units, ideal));
      row.fill.style.setProperty("--share", units ? Math.min(1, ideal / units) : 0);
      const unit = row.kind.unit === "sector" ? "sector" : "turn";
      row.text.textContent = `${plural(units, unit)}, ${ideal.toLocaleString("en")} would do`;
      const excess = ideal ? units / ideal : 1;
      row.factor.textContent = ideal ? `${times(excess)}×` : "";
      row.factor.className = `times ${isWaste(units, ideal) ? "bad" : "good"}`;
    }
  }
}

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

// A panel: one version, and all pictures of it.

class Panel {
  constructor(side, chosen) {
    this.side = side;
    const id = `panel-${side}`;
    this.root = element("section", {class: "panel", id, "aria-labelledby": `${id}-version`, role: "region"});
    this.choice = element(
        "select", {id: `${id}-version`, "aria-label": side === 0 ? "Version on the left" : "Version on the right"});
    DATA.traces.forEach((trace, i) => this.choice.append(element("option", {value: i}, trace.title)));
    this.choice.value = chosen;
    this.choice.addEventListener("change", () => player.show());
    this.idea = element("span", {class: "idea"});
    this.whom = element("span", {class: "whom"});
    this.saying = element("div", {class: "say", "aria-live": "polite"});
    this.source =
        element("div", {class: "source", tabindex: "0", role: "region", "aria-label": "Source of the kernel"});
    this.lanes = element("div", {class: "picture lanes"});
    this.memory = element("div", {class: "picture memory"});
    this.banks = element("div", {class: "picture banks"});
    this.counts = element("table", {class: "counts"});
    this.timeline = element("div", {class: "picture timeline"});
    this.touched =
        element("div", {class: "touched"}, this.memory, this.counts, this.banks, this.timeline);
    this.root.append(
        element("header", {}, this.choice, this.idea, this.whom), this.saying, this.source, this.lanes, this.touched);
  }

  open(trace, mostWaves, mostUnits) {
    this.trace = trace;
    this.idea.textContent = trace.idea;
    const [{grid, block}] = trace.launches, {follow} = trace;
    const sides = (of) => of.filter((n, i) => n > 1 || i === 0).join(" × ");
    const all = follow.length > 2 && follow.every((warp, i) => warp === follow[0] + i);
    const warps = follow.length === 1 ? `Warp ${follow[0]}` :
                                        `Warps ${all ? `${follow[0]} to ${follow.at(-1)}` : follow.join(", ")}`;
    this.whom.textContent = `${trace.problem}: ${sides(grid)} ${sides(grid) === "1" ? "block" : "blocks"} of ${
        sides(block)} threads. ${warps} of block ${trace.block.join(",")}.`;
    this.lists = trace.files.map((file) => {
      const list = element("ol", {"aria-label": file.path});
      for (const line of file.text.replace(/\n$/, "").split("\n")) {
        list.append(element("li", /^\s*\/\//.test(line) ? {class: "comment"} : {}, line));
      }
      return list;
    });
    this.file = -1;
    this.history = new History(trace);
    this.parts = {
      lanes: new Lanes(trace, this.lanes),
      memory: memoryViews(trace, this.memory),
      banks: new Banks(trace, mostWaves, this.banks),
      counts: new Counts(trace, mostUnits, this.counts),
      timeline: new Timeline(trace, this.timeline, (step) => player.goTo(this, step)),
    };
    // Of a pipeline the order is what the page is about.
    if (trace.list.some((step) => step.note))
      this.memory.before(this.timeline);
    else
      this.touched.append(this.timeline);
    this.touched.scrollTop = 0;
  }

  go(at) {
    const trace = this.trace, step = trace.list[at];
    this.at = at;
    const {out, bad, good} = say(trace, step);
    this.saying.className = `say${bad ? " bad" : good ? " good" : ""}`;
    const cut = trace.left_out && at === trace.list.length - 1 ?
        `. ${plural(trace.left_out, "step")} more were not recorded` :
        "";
    this.saying.replaceChildren(
        element(
            "span", {class: "tag"},
            `${short(trace.label)}, step ${at + 1} of ${trace.list.length}${
                trace.launches.length > 1 ? `, launch ${step.launch + 1}` : ""}${cut}`),
        ...out);
    this.showLine(step);
    this.history.goTo(at);
    this.parts.lanes.show(step, this.history);
    for (const view of this.parts.memory) view.show(step.place === view.place ? step : null, this.history);
    this.parts.banks.show(step, this.history);
    this.parts.counts.show(at);
    this.parts.timeline.show(at);
    this.follow(step);
  }

  /** Scrolls to what the step touches, as little as that takes. */
  follow(step) {
    const {touched} = this, view = this.parts.memory.find((one) => one.place === step.place);
    const part = step.cells ? this.parts.banks.queue : step.kind ? view && view.svg : step.note && this.timeline;
    if (!part) return;
    const box = touched.getBoundingClientRect(), {top, bottom} = part.getBoundingClientRect();
    const heading = part.previousElementSibling ? part.previousElementSibling.offsetHeight + 4 : 0;
    const room = box.height - (bottom - top);
    if (top - heading < box.top || room < heading)
      touched.scrollTop += top - Math.max(0, Math.min(heading, room)) - box.top;
    else if (bottom > box.bottom)
      touched.scrollTop += bottom - box.bottom;
  }

  showLine(step) {
    if (this.now) {
      this.now.classList.remove("now");
      this.now.removeAttribute("aria-current");
    }
    this.now = null;
    if (step.at < 0) return;
    const [file, line] = this.trace.places[step.at];
    if (file !== this.file) {
      this.source.replaceChildren(this.lists[file]);
      this.file = file;
    }
    this.now = this.lists[file].children[line - 1];
    if (!this.now) return;
    this.now.classList.add("now");
    this.now.setAttribute("aria-current", "step");
    this.source.scrollTop = this.now.offsetTop - this.source.clientHeight / 2;
  }
}

// Says why one version is faster than another.

const duration = (us) =>
    us < 1000 ? `${us < 100 ? us.toFixed(1) : Math.round(us)} µs` : `${(us / 1000).toFixed(us < 10000 ? 2 : 1)} ms`;
const kilobytes = (bytes) =>
    bytes < 10240 ? `${bytes.toLocaleString("en")} bytes` : `${Math.round(bytes / 1024).toLocaleString("en")} KiB`;
const sumOf = (trace, pick) => KINDS.reduce(
    (n, kind) => n + (pick(kind) && trace.counters[kind.key] ? trace.counters[kind.key].requests : 0), 0);

/** What a step of the reader's eye should find: the text, in whose panel, and at which step. */
function storyOf(a, b) {
  const faults = [], means = [], gains = [], prices = [];
  const per = (trace, key) => trace.counters[key] || {requests: 0, units: 0, ideal: 0};
  const example = (trace, kind, bad) =>
      trace.list.find((s) => s.kind === kind && isWaste(s.units, s.ideal) === bad);
  const na = short(a.label), nb = short(b.label);
  const isShared = (kind) => kind.unit !== "sector";
  /** How far apart the lanes' values lie, where that is the same in all such requests. */
  const because = (trace, kind, bad) => {
    const steps = trace.list.filter((s) => s.kind === kind && isWaste(s.units, s.ideal) === bad);
    const distances = new Set(steps.map(distance));
    const [d] = distances, [step] = steps;
    if (distances.size !== 1 || !d) return "";
    if (d === step.width) return ": its lanes' values lie side by side";
    const banks = !step.cells ? "" :
        bad                   ? d % ROW === 0 ? ", all in one bank" : "" :
        step.units === 1      ? ", each in another bank" :
                                "";
    return `: its lanes' values lie ${Math.abs(d).toLocaleString("en")} bytes apart${banks}`;
  };
  for (const kind of KINDS) {
    const x = per(a, kind.key), y = per(b, kind.key);
    const unit = isShared(kind) ? "turn" : "sector";
    const each = (of) => of.requests ? of.units / of.requests : 0;
    const fewest = (of) => of.requests ? of.ideal / of.requests : 0;
    const excess = (of) => of.ideal ? of.units / of.ideal : 1;
    const amount = (n) => `${times(n)} ${unit}${n === 1 ? "" : "s"}`;
    const better = x.requests && y.requests && excess(x) / excess(y) >= 1.25;
    if (isWaste(x.units, x.ideal) && (a === b || better || !isWaste(y.units, y.ideal))) {
      faults.push({
        text: `${na}: each ${kind.one} takes ${amount(each(x))} where ${times(fewest(x))} would do, ${
            times(excess(x))} times as many${because(a, kind, true)}.`,
        panel: 0,
        step: example(a, kind, true),
        bad: true
      });
    }
    if (better) {
      gains.push({
        text: `${nb}: each ${kind.one} takes ${amount(each(y))}${
            isWaste(y.units, y.ideal) ? `, still ${times(excess(y))} times the fewest` :
                                        ", the fewest possible"}${because(b, kind, isWaste(y.units, y.ideal))}.`,
        panel: 1,
        step: example(b, kind, isWaste(y.units, y.ideal))
      });
    } else if (isWaste(y.units, y.ideal)) {
      prices.push({
        text: `${nb} ${isWaste(x.units, x.ideal) ? "still pays" : "pays a price"}: each ${kind.one} takes ${
            amount(each(y))} where ${times(fewest(y))} would do${because(b, kind, true)}.`,
        panel: 1,
        step: example(b, kind, true),
        bad: true
      });
    }
  }
  if (!sumOf(a, isShared) && sumOf(b, isShared)) {
    means.push({
      text: `${
          nb} passes its data through shared memory, so that each side is read or written in the order that suits it.`,
      panel: 1,
      step: b.list.find((s) => s.kind && s.shared)
    });
  }
  const turn = (trace) => trace.list.findLast((s) => s.note === "named arrive");
  if (turn(b) && !turn(a)) {
    means.push({
      text: `In ${nb}, warps hand on whose turn it is: one waits at a named barrier until the other arrives there.`,
      panel: 1,
      step: turn(b)
    });
  }
  if (a.problem !== b.problem) return [...faults, ...means, ...gains, ...prices];  // totals don't compare
  for (const [where, pick] of [["the big memory", (k) => !isShared(k)], ["shared memory", isShared]]) {
    const x = sumOf(a, pick), y = sumOf(b, pick);
    if (y && x / y >= 1.25)
      gains.push({
        text: `${nb} makes ${times(x / y)} times fewer requests to ${where} for the same work: ${
            y.toLocaleString("en")} instead of ${x.toLocaleString("en")}.`,
        panel: 1,
        step: b.list.find((s) => s.kind && pick(s.kind))
      });
  }
  if (a.lanes < 24 && b.lanes - a.lanes >= 2) {
    faults.push({
      text: `${na}: on average only ${times(a.lanes)} of 32 lanes take part in a request; the others wait.`,
      panel: 0,
      step: a.list.find((s) => s.kind && s.lanes.length < FEW_LANES)
    });
  }
  if (b.lanes - a.lanes >= 2)
    gains.push({
      text: `${nb} keeps more lanes busy: ${times(b.lanes)} of 32 on average instead of ${times(a.lanes)}.`,
      panel: 1
    });
  if (b.syncs && a.syncs / b.syncs >= 1.25)
    gains.push({
      text: `${nb}'s warps wait for each other less often: ${plural(b.syncs, "barrier")} instead of ${
          a.syncs.toLocaleString("en")}.`,
      panel: 1,
      step: b.list.find((s) => s.type === "b")
    });
  if (Math.abs(Math.log(a.moved / b.moved)) > 0.2) {
    (a.moved > b.moved ? gains : prices).push({
      text: `In all, ${na} moves ${kilobytes(a.moved)} to and from the big memory, ${nb} ${kilobytes(b.moved)}; ${
          kilobytes(b.compulsory)} is the least possible.`,
      panel: 1
    });
  }
  return [...faults, ...means, ...gains, ...prices];
}

function showWhy(a, b) {
  const na = short(a.label), nb = short(b.label);
  const verdict = $("verdict");
  verdict.replaceChildren();
  const us = DATA.measured.us, ratio = us ? us[a.label] / us[b.label] : 1;
  const faster = ratio > 1.02 ? "faster" : ratio < 0.98 ? "slower" : "";
  $("why-title").textContent = a === b ? `What ${na} does` :
      faster ? `Why ${nb} is ${faster} than ${na}` :
               `What ${nb} changes against ${na}`;
  const list = element("ul");
  for (const item of storyOf(a, b).filter((one) => a !== b || one.panel === 0)) {
    const line = element("li", {}, item.text);
    if (item.step) {
      const button = element("button", {type: "button"}, "Show me");
      button.addEventListener("click", () => {
        player.goTo(player.panels[Math.min(item.panel, player.panels.length - 1)], item.step.index);
      });
      line.append(" ", button);
    }
    list.append(line);
  }
  if (a !== b && us) {
    const speed = ratio > 1.02 ? `${times(ratio)} times as fast` :
        ratio < 0.98 ? `${times(1 / ratio)} times as slow` :
                       "the same within 2 %";
    verdict.append(element(
        "p", {},
        `Measured on an ${DATA.measured.device}, ${DATA.measured.problem}: ${na} takes ${duration(us[a.label])}, ${
            nb} `,
        element("b", {}, `${duration(us[b.label])}: ${speed}`), ". What changed:"));
  }
  if (list.children.length === 0)
    list.append(element(
        "li", {}, "Neither wastes sectors or turns: the counts of both are the fewest possible, or the same."));
  verdict.append(list);
  if (a !== b && b.vs)
    verdict.append(element(
        "p", {class: "note"},
        element(
            "b", {},
            b.vs_of && b.vs_of !== na ? `In its author's words, against ${b.vs_of}: ` : `In its author's words: `),
        b.vs));
}

// The controls, and which step is shown.

const player = {
  panels: [],
  at: 0,
  steps: 1,
  timer: 0,

  start() {
    DATA.traces.forEach(readTrace);
    const two = DATA.traces.length > 1;
    const wanted = decodeURIComponent(location.hash.slice(1)).split(",");
    const find = (name, otherwise) => {
      const i = DATA.traces.findIndex((t) => short(t.label) === name || t.title === name);
      return i >= 0 ? i : otherwise;
    };
    for (let side = 0; side < (two ? 2 : 1); ++side) {
      const panel = new Panel(side, find(wanted[side], side));
      this.panels.push(panel);
      $("panels").append(panel.root);
      if (!two) continue;
      const tab = element("button", {role: "tab", type: "button", "aria-controls": `panel-${side}`});
      tab.addEventListener("click", () => this.tab(side));
      tab.addEventListener("keydown", (event) => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        event.stopPropagation();
        this.tab(1 - side);
        this.panels[1 - side].tab.focus();
      });
      panel.tab = tab;
      $("tabs").append(tab);
    }
    if (!two) {
      $("panels").style.gridTemplateColumns = "minmax(0, 1fr)";
      $("panels").style.maxWidth = "860px";
    }
    const actions = {
      first: () => this.go(0),
      last: () => this.go(this.steps - 1),
      back: () => this.go(this.at - 1),
      next: () => this.go(this.at + 1),
      play: () => this.toggle(),
      waste: () => this.nextWaste()
    };
    for (const [id, action] of Object.entries(actions)) {
      $(id).addEventListener("click", () => {
        action();
        this.bringIntoView();
      });
    }
    $("scrubber").addEventListener("input", (event) => {
      this.go(Number(event.target.value));
      this.bringIntoView();
    });
    $("speed").addEventListener("change", () => {
      if (this.timer) {
        this.pause();
        this.play();
      }
    });
    document.addEventListener("keydown", (event) => this.key(event));
    NARROW.addEventListener("change", () => this.show(this.at));
    this.tab(0);
    const at = Number(wanted[2]) || 0;
    this.show(at);
    if (at > 0) this.bringIntoView();
  },

  /** The reader has come for the steps: what is before them folds away, and they fill the screen. */
  bringIntoView() {
    $("primer").open = false;
    const {top, bottom} = $("stage").getBoundingClientRect();
    if (top < 0 || bottom > $("controls").getBoundingClientRect().top + 1) $("stage").scrollIntoView();
  },

  show(at = 0) {
    this.pause();
    const traces = this.panels.map((panel) => DATA.traces[panel.choice.value]);
    const mostWaves = Math.max(...traces.map((trace) => trace.mostWaves));
    const mostUnits = Math.max(
        1, ...traces.flatMap((trace) => Object.values(trace.sums[trace.sums.length - 1]).map((sum) => sum[1])));
    this.panels.forEach((panel, i) => {
      panel.open(traces[i], mostWaves, mostUnits);
      if (panel.tab) panel.tab.textContent = traces[i].title;
    });
    this.steps = Math.max(...traces.map((trace) => trace.list.length));
    $("scrubber").max = this.steps - 1;
    showWhy(traces[0], traces[traces.length - 1]);
    this.align();
    this.go(at);
  },

  /** Pictures of the two that show the same begin at the same height. */
  align() {
    for (const name of ["memory", "counts", "timeline"]) {
      const parts = this.panels.map((panel) => panel[name]);
      for (const part of parts) part.style.marginBottom = "";
      if (parts.some((part) => !part.nextElementSibling)) continue;
      const most = Math.max(...parts.map((part) => part.offsetHeight));
      for (const part of parts) part.style.marginBottom = `${most - part.offsetHeight}px`;
    }
  },

  tab(side) {
    this.panels.forEach((panel, i) => {
      panel.root.classList.toggle("shown", i === side);
      if (panel.tab) {
        panel.tab.setAttribute("aria-selected", i === side);
        panel.tab.tabIndex = i === side ? 0 : -1;
      }
      if (i === side && panel.trace) panel.go(panel.at);  // what it scrolls in has a height now
    });
  },

  /** Both begin and end together: the one with fewer steps waits for the other. */
  stepOf(panel, at) {
    const n = panel.trace.list.length;
    return this.steps <= 1 ? 0 : Math.floor(at * (n - 1) / (this.steps - 1) + 1e-9);
  },

  go(at) {
    this.at = Math.max(0, Math.min(this.steps - 1, at));
    for (const panel of this.panels) panel.go(this.stepOf(panel, this.at));
    $("scrubber").value = this.at;
    const where = `Step ${this.at + 1} of ${this.steps}`;
    $("where").textContent = where;
    $("scrubber").setAttribute("aria-valuetext", where);
    for (const id of ["first", "back"]) $(id).disabled = this.at === 0;
    for (const id of ["next", "last"]) $(id).disabled = this.at === this.steps - 1;
    if (this.at === this.steps - 1) this.pause();
    history.replaceState(
        null, "",
        `#${this.panels.map((panel) => short(panel.trace.label)).join(",")}${this.panels.length === 1 ? "," : ""},${
            this.at}`);
  },

  goTo(panel, step) {
    this.pause();
    this.tab(this.panels.indexOf(panel));
    let at = 0;
    while (at < this.steps - 1 && this.stepOf(panel, at) < step) ++at;
    this.go(at);
    this.bringIntoView();
  },

  nextWaste() {
    this.pause();
    for (let i = 1; i <= this.steps; ++i) {
      const at = (this.at + i) % this.steps;
      const hit = this.panels.find((panel) => {
        const now = this.stepOf(panel, at), before = at > 0 ? this.stepOf(panel, at - 1) : -1,
              step = panel.trace.list[now];
        return now !== before && isPoor(step);
      });
      if (hit) {
        this.tab(this.panels.indexOf(hit));
        return this.go(at);
      }
    }
  },

  toggle() {
    if (this.timer)
      this.pause();
    else
      this.play();
  },
  play() {
    if (this.at === this.steps - 1) this.go(0);
    this.timer = setInterval(() => this.go(this.at + 1), Number($("speed").value));
    this.playing(true);
  },
  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.playing(false);
  },
  playing(on) {
    $("play").querySelector("path").setAttribute("d", on ? "M3 2h3.6v12H3zM9.4 2H13v12H9.4z" : "M4 2l9 6-9 6z");
    $("play").lastElementChild.textContent = on ? "Pause" : "Play";
    for (const panel of this.panels) panel.saying.setAttribute("aria-live", on ? "off" : "polite");
  },

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const onButton = ["BUTTON", "SUMMARY", "A"].includes(event.target.tagName);
    const keys = {
      ArrowLeft: () => this.go(this.at - (event.shiftKey ? 10 : 1)),
      ArrowRight: () => this.go(this.at + (event.shiftKey ? 10 : 1)),
      Home: () => this.go(0),
      End: () => this.go(this.steps - 1),
      n: () => this.nextWaste(),
      N: () => this.nextWaste(),
      ...(onButton ? {} : {" ": () => this.toggle()}),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    if (event.key !== " ") this.pause();
    keys[event.key]();
    this.bringIntoView();
  },
};

player.start();
