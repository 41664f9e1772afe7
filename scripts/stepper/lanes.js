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
