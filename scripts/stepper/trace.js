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
    if (step.type === "q" && step.shared) step.cells = wavefronts(step);
  trace.mostWaves =
      Math.max(0, ...steps.map((step) => step.cells ? Math.max(...step.cells.map((c) => c.wave)) + 1 : 0));
  trace.barriers = nameBarriers(trace, steps);
}

/** Names of mbarriers by where they are, as the source calls them: "full[1]". */
function nameBarriers(trace, steps) {
  const names = new Map();
  // Best is where the kernel itself waits for it; elsewhere it may be a parameter.
  const own = (step) => (step.at >= 0 && trace.places[step.at][0] === 0 ? 1 : 0) +
      (step.note === "passed" || step.note === "wait" ? 1 : 0);
  for (const step of [...steps].sort((a, b) => own(b) - own(a))) {
    if (!step.note || step.object < 0 || step.note.startsWith("named")) continue;
    if (!names.has(step.object)) names.set(step.object, "mbarrier");
    if (step.at < 0 || names.get(step.object) !== "mbarrier") continue;
    const [file, line] = trace.places[step.at];
    const found = /mbarrier_\w+\(\s*&?(\w+)/.exec(trace.files[file].text.split("\n")[line - 1]);
    if (found) names.set(step.object, found[1]);
  }
  const seen = {};
  const many = (name) => [...names.values()].filter((other) => other === name).length > 1;
  for (const object of [...names.keys()].sort((a, b) => a - b)) {
    const name = names.get(object);
    seen[name] = (seen[name] ?? -1) + 1;
    names.set(object, many(name) || seen[name] > 0 ? `${name}[${seen[name]}]` : name);
  }
  return names;
}
