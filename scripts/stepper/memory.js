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
