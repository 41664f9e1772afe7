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
