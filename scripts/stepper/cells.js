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
