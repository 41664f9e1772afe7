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
