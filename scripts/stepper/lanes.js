// The lanes of a warp: who takes part, and the shade of what each holds.

class Lanes {
  constructor(parent) {
    const svg = element("svg", {viewBox: "0 0 640 36", role: "img"});
    this.lanes = Array.from({length: LANES}, (_, lane) => {
      const box = element("rect", {class: "lane", x: lane * 20 + 1, y: 1, width: 18, height: 18, rx: 2});
      const number = element("text", {class: "lane-number", x: lane * 20 + 10, y: 13.5}, lane);
      const register = element("rect", {class: "register", x: lane * 20 + 1, y: 23, width: 18, height: 11});
      svg.append(box, number, register);
      return {box, number, register};
    });
    this.svg = svg;
    this.caption = element("div", {class: "caption"});
    parent.replaceChildren(
        element("h3", {}, "The 32 lanes of the warp, and the value in each one's hand (its register)"), svg,
        this.caption);
  }

  show(trace, step, history) {
    const mask = step.mask ?? (step.type === "b" ? 0xffffffff : 0);
    this.lanes.forEach(({box, number, register}, lane) => {
      const on = mask >>> lane & 1 ? " on" : "";
      box.setAttribute("class", `lane${on}`);
      number.setAttribute("class", `lane-number${on}`);
      const hand = step.warp >= 0 && history.hands.get(step.warp * LANES + lane);
      register.setAttribute("class", hand ? "shade" : "register");
      if (hand) register.style.setProperty("--l", hand.shade);
    });
    this.svg.setAttribute("aria-label", `${bits(mask)} of 32 lanes take part`);
    this.caption.textContent = step.type === "q" ? this.wants(trace, step) : "";
  }

  /** "lane 0: in[0][0] · lane 1: in[0][1] · … lane 31: in[0][31]" */
  wants(trace, step) {
    const bank = (lane) =>
        (step.cells.find((cell) => cell.lane === lane || (cell.more || []).includes(lane)) || {}).bank;
    const what = (i) =>
        step.shared ? `bank ${bank(step.lanes[i])}` : elementName(trace, step.place, step.addresses[i]);
    const last = step.lanes.length - 1;
    const some = [...new Set([0, 1, last])].filter((i) => i <= last);
    return some.map((i) => `${i === last && last > 2 ? "… " : ""}lane ${step.lanes[i]}: ${what(i)}`).join(" · ");
  }
}
