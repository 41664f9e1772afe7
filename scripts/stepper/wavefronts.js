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
