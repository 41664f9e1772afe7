// What test/stepper_test.py asks of a page, in the page.
const inTest = {
  /** Pictures that show another number of sectors or turns than was counted. */
  wrongPictures() {
    const wrong = [];
    let checked = 0;
    for (const trace of DATA.traces) {
      for (const step of trace.list) {
        if (step.type !== "q" || step.op === "atom" || step.op === "atoms") continue;
        const turns = () => Math.max(...step.cells.map((cell) => cell.wave)) + 1;
        const shown = step.shared ? turns() : sectorsOf(step).length;
        ++checked;
        if (shown !== step.units) wrong.push([trace.label, step.index, step.op, shown, step.units]);
      }
    }
    return [checked, wrong];
  },

  /** The sectors of the second array, left and right, and the turns at the banks, as they are drawn. */
  drawn() {
    const sides = [0, 1].map((side) => document.querySelector(`#panel-${side}`));
    const sectors = (side) => (side.querySelectorAll("path.sector")[1].getAttribute("d").match(/M/g) || []).length;
    const turns = (side) =>
        new Set([...side.querySelectorAll(".banks svg .cell")].map((cell) => cell.getAttribute("y"))).size;
    return [...sides.map(sectors), ...sides.map(turns)];
  },

  countsShown: (side) => [...document.querySelectorAll(`#panel-${side} .counts tr`)].map(
      (row) => [row.querySelector("th").innerText, row.innerText]),

  precedes: (a, b) => Boolean(
      document.querySelector(a).compareDocumentPosition(document.querySelector(b)) &
      Node.DOCUMENT_POSITION_FOLLOWING),

  /** All of it, above the controls, and inside of what it scrolls in. */
  inSight(at) {
    const box = at.getBoundingClientRect(), scrolls = at.closest(".source, .touched");
    const {top, bottom} = scrolls ? scrolls.getBoundingClientRect() : {top: 0, bottom: innerHeight};
    const end = Math.min(bottom, $("controls").getBoundingClientRect().top);
    return box.height > 0 && box.top >= Math.max(0, top) - 1 && box.bottom <= end + 1;
  },

  /** So many steps of the page, from its first on. */
  someSteps: (most) =>
      Array.from({length: Math.min(most, player.steps)}, (_, i) => Math.floor(i * player.steps / most)),

  /** What of a step can't be seen, at each of these steps: "v02, step 17: banks". */
  outOfSight(steps = [player.at]) {
    const missed = [];
    for (const at of steps) {
      player.go(at);
      for (const panel of player.panels.filter((one) => one.root.getClientRects().length > 0)) {
        const step = panel.trace.list[panel.at];
        const parts = {
          sentence: panel.saying,
          line: panel.now,
          lanes: panel.lanes.querySelector("svg"),
          sectors: panel.memory.querySelector("path.sector[d^=M]"),
          banks: step.cells && panel.banks.querySelector("svg"),
        };
        for (const [name, part] of Object.entries(parts)) {
          if (part && !this.inSight(part)) missed.push(`${short(panel.trace.label)}, step ${panel.at}: ${name}`);
        }
      }
    }
    return missed;
  },

  sumsOfSteps(side) {
    const sums = {};
    for (const step of player.panels[side].trace.list) {
      if (!step.kind) continue;
      const sum = sums[step.kind.name] ??= [0, 0];
      sum[0] += step.units;
      sum[1] += step.ideal;
    }
    return sums;
  },

  /** What the first such note of a trace is told as. */
  note(trace, note) {
    const step = DATA.traces[trace].list.find((one) => one.note === note);
    return say(DATA.traces[trace], step).out[0];
  },

  choose(id, value) {
    $(id).value = value;
    $(id).dispatchEvent(new Event("change"));
  },

  panelsInSight: () => [...document.querySelectorAll(".panel")].map((panel) => panel.getClientRects().length > 0),

  /** The focused element, and whether that can be seen. */
  focused() {
    const at = document.activeElement, style = getComputedStyle(at);
    return (at.id || at.className || at.tagName) + (style.outlineStyle === "none" ? " unseen" : "");
  },

  /** Controls that a finger can't hit. */
  smallControls: () => [...document.querySelectorAll("button, select, input")]
                           .filter((e) => e.getClientRects().length && Math.min(e.offsetWidth, e.offsetHeight) < 24)
                           .map((e) => e.outerHTML.slice(0, 60)),

  withoutName: () => [...document.querySelectorAll("button, select, input, [role=img], [role=region]")]
                         .filter(
                             (e) => !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby") &&
                                 !e.innerText && !e.closest("label"))
                         .map((e) => e.outerHTML.slice(0, 80)),

  sameIds() {
    const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
    return ids.filter((id, i) => ids.indexOf(id) !== i);
  },

  /** Milliseconds that a step takes, in the middle of some. */
  stepTime() {
    const taken = Array.from({length: 3}, () => {
      const begin = performance.now();
      player.go(player.at + 1);
      document.body.offsetHeight;  // lays out
      return performance.now() - begin;
    });
    return taken.sort((a, b) => a - b)[1];
  },

  colour(name) {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = `var(--${name})`;
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found.match(/\d+/g).map(Number);
  },

  colours() {
    const names =
        ["ground", "panel", "used", "used-ink", "waste", "waste-ground", "good", "good-ground", "ink", "edge"];
    const found = Object.fromEntries(names.map((name) => [name, this.colour(name)]));
    for (const lane of [0, 31]) {
      const rect = document.querySelector("#legend .shade").cloneNode();
      rect.style.setProperty("--l", lane);
      document.querySelector("#legend svg").append(rect);
      found[`lane ${lane}`] = getComputedStyle(rect).fill.match(/\d+/g).map(Number);
      rect.remove();
    }
    return found;
  },

  /** Texts with less contrast than WCAG asks for, and how many there are. */
  poorTexts() {
    const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
    const linear = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const ground = (e) => {
      for (; e; e = e.parentElement) {
        const colour = parse(getComputedStyle(e).backgroundColor);
        if (colour.length < 4 || colour[3] === 1) return colour;
      }
      return this.colour("ground");
    };
    const poor = [];
    let texts = 0;
    for (const e of document.querySelectorAll("body *")) {
      const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
      if (!own || !e.getClientRects().length) continue;
      if (e.closest("script, style, noscript, option, :disabled, .past, .skip")) continue;
      const style = getComputedStyle(e), svg = e.namespaceURI.endsWith("svg");
      let behind = ground(e);
      if (svg && /cell-lane|lane-number on/.test(e.getAttribute("class") || "")) {
        behind = this.colour(e.classList.contains("late") ? "waste-ground" : "used");
      }
      const a = light(parse(svg ? style.fill : style.color)), b = light(behind);
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      ++texts;
      if (contrast < 4.5) poor.push([contrast, e.tagName, e.getAttribute("class"), e.textContent.slice(0, 30)]);
    }
    return [poor, texts];
  },
};
