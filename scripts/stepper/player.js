// The controls, and which step is shown.

const player = {
  panels: [],
  at: 0,
  steps: 1,
  timer: 0,

  start() {
    DATA.traces.forEach(readTrace);
    const two = DATA.traces.length > 1;
    const wanted = decodeURIComponent(location.hash.slice(1)).split(",");
    const find = (name, otherwise) => {
      const i = DATA.traces.findIndex((t) => short(t.label) === name || t.title === name);
      return i >= 0 ? i : otherwise;
    };
    for (let side = 0; side < (two ? 2 : 1); ++side) {
      const panel = new Panel(side, find(wanted[side], side));
      this.panels.push(panel);
      $("panels").append(panel.root);
      if (!two) continue;
      const tab = element("button", {role: "tab", type: "button", "aria-controls": `panel-${side}`});
      tab.addEventListener("click", () => this.tab(side));
      tab.addEventListener("keydown", (event) => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        event.stopPropagation();
        this.tab(1 - side);
        this.panels[1 - side].tab.focus();
      });
      panel.tab = tab;
      $("tabs").append(tab);
    }
    if (!two) {
      $("panels").style.gridTemplateColumns = "minmax(0, 1fr)";
      $("panels").style.maxWidth = "860px";
    }
    const actions = {
      first: () => this.go(0),
      last: () => this.go(this.steps - 1),
      back: () => this.go(this.at - 1),
      next: () => this.go(this.at + 1),
      play: () => this.toggle(),
      waste: () => this.nextWaste()
    };
    for (const [id, action] of Object.entries(actions)) {
      $(id).addEventListener("click", () => {
        action();
        this.bringIntoView();
      });
    }
    $("scrubber").addEventListener("input", (event) => {
      this.go(Number(event.target.value));
      this.bringIntoView();
    });
    $("speed").addEventListener("change", () => {
      if (this.timer) {
        this.pause();
        this.play();
      }
    });
    document.addEventListener("keydown", (event) => this.key(event));
    NARROW.addEventListener("change", () => this.show(this.at));
    this.tab(0);
    const at = Number(wanted[2]) || 0;
    this.show(at);
    if (at > 0) this.bringIntoView();
  },

  /** The reader has come for the steps: what is before them folds away, and they fill the screen. */
  bringIntoView() {
    $("primer").open = false;
    const {top, bottom} = $("stage").getBoundingClientRect();
    if (top < 0 || bottom > $("controls").getBoundingClientRect().top + 1) $("stage").scrollIntoView();
  },

  show(at = 0) {
    this.pause();
    const traces = this.panels.map((panel) => DATA.traces[panel.choice.value]);
    const mostWaves = Math.max(...traces.map((trace) => trace.mostWaves));
    const mostUnits = Math.max(
        1, ...traces.flatMap((trace) => Object.values(trace.sums[trace.sums.length - 1]).map((sum) => sum[1])));
    this.panels.forEach((panel, i) => {
      panel.open(traces[i], mostWaves, mostUnits);
      if (panel.tab) panel.tab.textContent = traces[i].title;
    });
    this.steps = Math.max(...traces.map((trace) => trace.list.length));
    $("scrubber").max = this.steps - 1;
    showWhy(traces[0], traces[traces.length - 1]);
    this.align();
    this.go(at);
  },

  /** Pictures of the two that show the same begin at the same height. */
  align() {
    for (const name of ["memory", "counts", "timeline"]) {
      const parts = this.panels.map((panel) => panel[name]);
      for (const part of parts) part.style.marginBottom = "";
      if (parts.some((part) => !part.nextElementSibling)) continue;
      const most = Math.max(...parts.map((part) => part.offsetHeight));
      for (const part of parts) part.style.marginBottom = `${most - part.offsetHeight}px`;
    }
  },

  tab(side) {
    this.panels.forEach((panel, i) => {
      panel.root.classList.toggle("shown", i === side);
      if (panel.tab) {
        panel.tab.setAttribute("aria-selected", i === side);
        panel.tab.tabIndex = i === side ? 0 : -1;
      }
      if (i === side && panel.trace) panel.go(panel.at);  // what it scrolls in has a height now
    });
  },

  /** Both begin and end together: the one with fewer steps waits for the other. */
  stepOf(panel, at) {
    const n = panel.trace.list.length;
    return this.steps <= 1 ? 0 : Math.floor(at * (n - 1) / (this.steps - 1) + 1e-9);
  },

  go(at) {
    this.at = Math.max(0, Math.min(this.steps - 1, at));
    for (const panel of this.panels) panel.go(this.stepOf(panel, this.at));
    $("scrubber").value = this.at;
    const where = `Step ${this.at + 1} of ${this.steps}`;
    $("where").textContent = where;
    $("scrubber").setAttribute("aria-valuetext", where);
    for (const id of ["first", "back"]) $(id).disabled = this.at === 0;
    for (const id of ["next", "last"]) $(id).disabled = this.at === this.steps - 1;
    if (this.at === this.steps - 1) this.pause();
    history.replaceState(
        null, "",
        `#${this.panels.map((panel) => short(panel.trace.label)).join(",")}${this.panels.length === 1 ? "," : ""},${
            this.at}`);
  },

  goTo(panel, step) {
    this.pause();
    this.tab(this.panels.indexOf(panel));
    let at = 0;
    while (at < this.steps - 1 && this.stepOf(panel, at) < step) ++at;
    this.go(at);
    this.bringIntoView();
  },

  nextWaste() {
    this.pause();
    for (let i = 1; i <= this.steps; ++i) {
      const at = (this.at + i) % this.steps;
      const hit = this.panels.find((panel) => {
        const now = this.stepOf(panel, at), before = at > 0 ? this.stepOf(panel, at - 1) : -1,
              step = panel.trace.list[now];
        return now !== before && isPoor(step);
      });
      if (hit) {
        this.tab(this.panels.indexOf(hit));
        return this.go(at);
      }
    }
  },

  toggle() {
    if (this.timer)
      this.pause();
    else
      this.play();
  },
  play() {
    if (this.at === this.steps - 1) this.go(0);
    this.timer = setInterval(() => this.go(this.at + 1), Number($("speed").value));
    this.playing(true);
  },
  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.playing(false);
  },
  playing(on) {
    $("play").querySelector("path").setAttribute("d", on ? "M3 2h3.6v12H3zM9.4 2H13v12H9.4z" : "M4 2l9 6-9 6z");
    $("play").lastElementChild.textContent = on ? "Pause" : "Play";
    for (const panel of this.panels) panel.saying.setAttribute("aria-live", on ? "off" : "polite");
  },

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const onButton = ["BUTTON", "SUMMARY", "A"].includes(event.target.tagName);
    const keys = {
      ArrowLeft: () => this.go(this.at - (event.shiftKey ? 10 : 1)),
      ArrowRight: () => this.go(this.at + (event.shiftKey ? 10 : 1)),
      Home: () => this.go(0),
      End: () => this.go(this.steps - 1),
      n: () => this.nextWaste(),
      N: () => this.nextWaste(),
      ...(onButton ? {} : {" ": () => this.toggle()}),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    if (event.key !== " ") this.pause();
    keys[event.key]();
    this.bringIntoView();
  },
};

player.start();
