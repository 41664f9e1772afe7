// Says why one version is faster than another.

const duration = (us) =>
    us < 1000 ? `${us < 100 ? us.toFixed(1) : Math.round(us)} µs` : `${(us / 1000).toFixed(us < 10000 ? 2 : 1)} ms`;
const kilobytes = (bytes) =>
    bytes < 10240 ? `${bytes.toLocaleString("en")} bytes` : `${Math.round(bytes / 1024).toLocaleString("en")} KiB`;
const sumOf = (trace, pick) => KINDS.reduce(
    (n, kind) => n + (pick(kind) && trace.counters[kind.key] ? trace.counters[kind.key].requests : 0), 0);

/** What a step of the reader's eye should find: the text, in whose panel, and at which step. */
function storyOf(a, b) {
  const faults = [], means = [], gains = [], prices = [];
  const per = (trace, key) => trace.counters[key] || {requests: 0, units: 0, ideal: 0};
  const example = (trace, kind, bad) =>
      trace.list.find((s) => s.kind === kind && isWaste(s.units, s.ideal) === bad);
  const na = short(a.label), nb = short(b.label);
  const isShared = (kind) => kind.unit !== "sector";
  /** How far apart the lanes' values lie, where that is the same in all such requests. */
  const because = (trace, kind, bad) => {
    const steps = trace.list.filter((s) => s.kind === kind && isWaste(s.units, s.ideal) === bad);
    const distances = new Set(steps.map(distance));
    const [d] = distances, [step] = steps;
    if (distances.size !== 1 || !d) return "";
    if (d === step.width) return ": its lanes' values lie side by side";
    const banks = !step.cells ? "" :
        bad                   ? d % ROW === 0 ? ", all in one bank" : "" :
        step.units === 1      ? ", each in another bank" :
                                "";
    return `: its lanes' values lie ${Math.abs(d).toLocaleString("en")} bytes apart${banks}`;
  };
  for (const kind of KINDS) {
    const x = per(a, kind.key), y = per(b, kind.key);
    const unit = isShared(kind) ? "turn" : "sector";
    const each = (of) => of.requests ? of.units / of.requests : 0;
    const fewest = (of) => of.requests ? of.ideal / of.requests : 0;
    const excess = (of) => of.ideal ? of.units / of.ideal : 1;
    const amount = (n) => `${times(n)} ${unit}${n === 1 ? "" : "s"}`;
    const better = x.requests && y.requests && excess(x) / excess(y) >= 1.25;
    if (isWaste(x.units, x.ideal) && (a === b || better || !isWaste(y.units, y.ideal))) {
      faults.push({
        text: `${na}: each ${kind.one} takes ${amount(each(x))} where ${times(fewest(x))} would do, ${
            times(excess(x))} times as many${because(a, kind, true)}.`,
        panel: 0,
        step: example(a, kind, true),
        bad: true
      });
    }
    if (better) {
      gains.push({
        text: `${nb}: each ${kind.one} takes ${amount(each(y))}${
            isWaste(y.units, y.ideal) ? `, still ${times(excess(y))} times the fewest` :
                                        ", the fewest possible"}${because(b, kind, isWaste(y.units, y.ideal))}.`,
        panel: 1,
        step: example(b, kind, isWaste(y.units, y.ideal))
      });
    } else if (isWaste(y.units, y.ideal)) {
      prices.push({
        text: `${nb} ${isWaste(x.units, x.ideal) ? "still pays" : "pays a price"}: each ${kind.one} takes ${
            amount(each(y))} where ${times(fewest(y))} would do${because(b, kind, true)}.`,
        panel: 1,
        step: example(b, kind, true),
        bad: true
      });
    }
  }
  if (!sumOf(a, isShared) && sumOf(b, isShared)) {
    means.push({
      text: `${
          nb} passes its data through shared memory, so that each side is read or written in the order that suits it.`,
      panel: 1,
      step: b.list.find((s) => s.kind && s.shared)
    });
  }
  const turn = (trace) => trace.list.findLast((s) => s.note === "named arrive");
  if (turn(b) && !turn(a)) {
    means.push({
      text: `In ${nb}, warps hand on whose turn it is: one waits at a named barrier until the other arrives there.`,
      panel: 1,
      step: turn(b)
    });
  }
  if (a.problem !== b.problem) return [...faults, ...means, ...gains, ...prices];  // totals don't compare
  for (const [where, pick] of [["the big memory", (k) => !isShared(k)], ["shared memory", isShared]]) {
    const x = sumOf(a, pick), y = sumOf(b, pick);
    if (y && x / y >= 1.25)
      gains.push({
        text: `${nb} makes ${times(x / y)} times fewer requests to ${where} for the same work: ${
            y.toLocaleString("en")} instead of ${x.toLocaleString("en")}.`,
        panel: 1,
        step: b.list.find((s) => s.kind && pick(s.kind))
      });
  }
  if (a.lanes < 24 && b.lanes - a.lanes >= 2) {
    faults.push({
      text: `${na}: on average only ${times(a.lanes)} of 32 lanes take part in a request; the others wait.`,
      panel: 0,
      step: a.list.find((s) => s.kind && s.lanes.length < FEW_LANES)
    });
  }
  if (b.lanes - a.lanes >= 2)
    gains.push({
      text: `${nb} keeps more lanes busy: ${times(b.lanes)} of 32 on average instead of ${times(a.lanes)}.`,
      panel: 1
    });
  if (b.syncs && a.syncs / b.syncs >= 1.25)
    gains.push({
      text: `${nb}'s warps wait for each other less often: ${plural(b.syncs, "barrier")} instead of ${
          a.syncs.toLocaleString("en")}.`,
      panel: 1,
      step: b.list.find((s) => s.type === "b")
    });
  if (Math.abs(Math.log(a.moved / b.moved)) > 0.2) {
    (a.moved > b.moved ? gains : prices).push({
      text: `In all, ${na} moves ${kilobytes(a.moved)} to and from the big memory, ${nb} ${kilobytes(b.moved)}; ${
          kilobytes(b.compulsory)} is the least possible.`,
      panel: 1
    });
  }
  return [...faults, ...means, ...gains, ...prices];
}

function showWhy(a, b) {
  const na = short(a.label), nb = short(b.label);
  const verdict = $("verdict");
  verdict.replaceChildren();
  const us = DATA.measured.us, ratio = us ? us[a.label] / us[b.label] : 1;
  const faster = ratio > 1.02 ? "faster" : ratio < 0.98 ? "slower" : "";
  $("why-title").textContent = a === b ? `What ${na} does` :
      faster ? `Why ${nb} is ${faster} than ${na}` :
               `What ${nb} changes against ${na}`;
  const list = element("ul");
  for (const item of storyOf(a, b).filter((one) => a !== b || one.panel === 0)) {
    const line = element("li", {}, item.text);
    if (item.step) {
      const button = element("button", {type: "button"}, "Show me");
      button.addEventListener("click", () => {
        player.goTo(player.panels[Math.min(item.panel, player.panels.length - 1)], item.step.index);
      });
      line.append(" ", button);
    }
    list.append(line);
  }
  if (a !== b && us) {
    const speed = ratio > 1.02 ? `${times(ratio)} times as fast` :
        ratio < 0.98 ? `${times(1 / ratio)} times as slow` :
                       "the same within 2 %";
    verdict.append(element(
        "p", {},
        `Measured on an ${DATA.measured.device}, ${DATA.measured.problem}: ${na} takes ${duration(us[a.label])}, ${
            nb} `,
        element("b", {}, `${duration(us[b.label])}: ${speed}`), ". What changed:"));
  }
  if (list.children.length === 0)
    list.append(element(
        "li", {}, "Neither wastes sectors or turns: the counts of both are the fewest possible, or the same."));
  verdict.append(list);
  if (a !== b && b.vs)
    verdict.append(element(
        "p", {class: "note"},
        element(
            "b", {},
            b.vs_of && b.vs_of !== na ? `In its author's words, against ${b.vs_of}: ` : `In its author's words: `),
        b.vs));
}
