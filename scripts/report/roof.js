// Versions under their roofline, and what bounds each.

function drawRoof() {
  const box = byId("roofline");
  const here = rows.filter((row) => agree(row, chosen, [...LADDER, "problem", "cache", "run"]) && row.time);
  const placed = here.filter((row) => row.gflops > 0 && row.intensity > 0);
  const roofs = report.roofs.filter((roof) => agree(roof, chosen, [...LADDER, "problem", "cache", "run"]));
  if (!here.length) return box.replaceChildren(h("p", {}, "No version was timed here."));
  const best = here.find((row) => row.simplest);
  const figure = h("figure", {});
  box.replaceChildren(
      best?.share > 0 ? h("p", {class: "lead"}, `${spoken(best.kernel)} reaches ${best.share_text} of ${best.roof}` +
          (best.share < 99 ? `: at most ${asMultiple(100 / best.share)} is left.` : ": nothing is left to gain.")) : "",
      written(best ?? here[0])?.["Bound by"] && best
          ? h("p", {}, h("strong", {}, "Bound by "), written(best)["Bound by"]) : "",
      figure, placed.length ? keyOf(placed) : h("p", {}, "These versions count no arithmetic, so they have " +
                                                "no place under a roofline."),
      boundsTable(here),
      h("p", {class: "note"}, "Solid lines are measured roofs, dotted ones what the GPU's clocks promise. " +
        "The operations per byte are of the problem's useful work, the same for all its versions."));
  if (placed.length && roofs.length) rooflineChart(figure, placed, roofs);
  else figure.remove();
}

function rooflineChart(box, points, roofs) {
  const rate = (roof) => roof.value ?? roof.pin;
  const memory = roofs.filter((roof) => !roof.compute), compute = roofs.filter((roof) => roof.compute);
  const ridges = compute.flatMap((c) => memory.map((m) => rate(c) / rate(m)));
  const xs = [...points.map((row) => row.intensity), ...ridges];
  const ys = [...points.map((row) => row.gflops), ...compute.map((c) => Math.max(c.value, c.pin)),
              ...(compute.length ? [] : points.flatMap((row) => memory.map((m) => rate(m) * row.intensity)))];
  const x = {from: Math.min(...xs) / 4, to: Math.max(...xs) * 3, log: true,
             title: "operations per compulsory byte"};
  const y = {from: Math.min(...ys) / 3 * 1e9, to: Math.max(...ys) * 2e9, log: true,
             title: "operations per second"};
  const made = chart(box, {label: `roofline of ${named(chosen)}; the table below has the same numbers`,
                           height: 400, x, y});
  const at = (intensity, gflops) => [made.px(intensity), made.py(gflops * 1e9)];
  const ceiling = Math.max(...compute.map(rate)), slope = Math.max(...memory.map(rate));
  for (const roof of roofs) {
    for (const [kind, value] of [["measured", roof.value], ["promised", roof.pin]]) {
      if (!(value > 0)) continue;
      const [left, right] = roof.compute ? [Number.isFinite(slope) ? Math.max(x.from, value / slope) : x.from, x.to]
          : [Math.max(x.from, y.from / 1e9 / value), Number.isFinite(ceiling) ? Math.min(x.to, ceiling / value) : x.to];
      const speed = (intensity) => roof.compute ? value : value * intensity;
      const [a, b] = [at(left, speed(left)), at(right, speed(right))];
      made.node.append(svg("line", {class: `roof ${kind}`, x1: a[0], y1: a[1], x2: b[0], y2: b[1]}));
      if (kind === "promised" && roof.value > 0) continue;
      const text = `${roof.name} ${roof.value_text || roof.pin_text}`;
      const angle = roof.compute ? 0 : Math.atan2(b[1] - a[1], b[0] - a[0]) * 180 / Math.PI;
      const to = roof.compute ? [b[0] - 4, b[1] - 6] : [a[0] + 0.06 * (b[0] - a[0]), a[1] + 0.06 * (b[1] - a[1])];
      made.node.append(svg("text", {class: "roof-name", "text-anchor": roof.compute ? "end" : "start", dy: -6,
                                    transform: `translate(${to}) rotate(${angle})`}, text));
    }
  }
  const linkOf = new Map(points.map((row) =>
      [row, point(...at(row.intensity, row.gflops), look(row), whyOf(row), says(row))]));
  made.node.append(...[...points].sort(byLook).map((row) => linkOf.get(row)));
  roving([...points].sort((a, b) => a.gflops - b.gflops).map((row) => linkOf.get(row)));
  // Names beside the two that are asked for first, the fastest on the right and the vendor's on the left.
  for (const [row, side] of [[points.find((row) => row.simplest), 1], [points.find((row) => row.library), -1]]) {
    if (!row) continue;
    const [left, top] = at(row.intensity, row.gflops);
    made.node.append(svg("text", {class: "point-name", x: left + 11 * side, y: top + 4,
                                  "text-anchor": side > 0 ? "start" : "end"}, spoken(row.kernel)));
  }
}

function boundsTable(list) {
  return tableOf("what bounds each version", [
    {title: "version", kind: "name", value: (row) => row.kernel,
     cell: (row) => row.vendor || row.peer ? spoken(row.kernel) : h("a", {href: whyOf(row)}, spoken(row.kernel))},
    {title: "of the roof", kind: "share", value: (row) => row.share, cell: (row) => row.share > 0
        ? h("span", {style: `--share: ${row.share}%`}, row.share_text) : ""},
    {title: "left to gain", kind: "number left", value: (row) => row.share > 0 ? 100 / row.share : null,
     cell: (row) => row.share > 0 ? row.share < 100 ? asMultiple(100 / row.share) : "–" : ""},
    {title: "roof", kind: "wide", cell: (row) => row.roof},
    {title: "speed", kind: "number speed", value: (row) => row.speed, cell: (row) => row.speed_text},
    {title: "GPU", kind: "gpu", cell: gpuOf},
    {title: "bound by", kind: "idea", cell: (row) => written(row)?.["Bound by"] ?? ""},
  ], list, {row: (row) => ({class: row.best ? "best" : ""})});
}
