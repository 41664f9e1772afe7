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
