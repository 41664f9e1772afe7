// The running counts.

class Counts {
  constructor(trace, mostUnits, parent) {
    this.trace = trace;
    this.mostUnits = mostUnits;
    parent.replaceChildren(element("caption", {class: "hidden"}, "Counts so far"));
    const last = trace.sums[trace.sums.length - 1];
    this.rows = KINDS.filter((kind) => last[kind.key][0] > 0).map((kind) => {
      const fill = element("i"), bar = element("div", {}, fill);
      const text = element("td"), factor = element("td", {class: "times"});
      parent.append(element(
          "tr", {}, element("th", {scope: "row"}, kind.name), element("td", {class: "bar"}, bar), text, factor));
      return {kind, bar, fill, text, factor};
    });
  }

  show(at) {
    const sums = this.trace.sums[at + 1];
    for (const row of this.rows) {
      const [, units, ideal] = sums[row.kind.key];
      row.bar.style.setProperty("--units", units / this.mostUnits);
      row.bar.style.visibility = units ? "visible" : "hidden";
      row.bar.classList.toggle("over", isWaste(units, ideal));
      row.fill.style.setProperty("--share", units ? Math.min(1, ideal / units) : 0);
      const unit = row.kind.unit === "sector" ? "sector" : "turn";
      row.text.textContent = `${plural(units, unit)}, ${ideal.toLocaleString("en")} would do`;
      const excess = ideal ? units / ideal : 1;
      row.factor.textContent = ideal ? `${times(excess)}×` : "";
      row.factor.className = `times ${isWaste(units, ideal) ? "bad" : "good"}`;
    }
  }
}
