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
