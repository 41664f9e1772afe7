// Tables that can be sorted and searched.

// Each column has a title, a class and what its cell shows of a row: a text or a node; value, which it
// is sorted by, is what is shown if not given.
function tableOf(label, columns, list, more = {}) {
  const shown = columns.filter((column) => list.some((row) => holds(column.cell(row))));
  const head = h("tr", {}, ...shown.map((column) =>
      h("th", {scope: "col", class: column.kind ?? ""}, column.title)));
  const body = list.map((row) => h("tr", more.row?.(row) ?? {}, ...shown.map((column, i) => {
    const value = column.value?.(row);
    return h(i ? "td" : "th", {class: column.kind ?? "", scope: i ? false : "row",
                               "data-value": value === undefined ? false : value ?? ""}, column.cell(row));
  })));
  const table = h("table", {}, h("thead", {}, head), h("tbody", {}, ...body));
  if (more.sorts !== false) sortable(table);
  return region(label, table);
}

const holds = (content) => content instanceof Node ? content.hasChildNodes() : content !== "";

const UNITS = {"ns": 1e-3, "µs": 1, "ms": 1e3, "s": 1e6};

// What a cell is sorted by: a number, where it begins with one (times in µs), or its text.
function sortValue(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  const found = /^-?[\d.]+(?:e[+-]?\d+)?/.exec(text);
  if (!found || /^\d+[x:]/.test(text)) return text;
  const unit = /^\s*(ns|µs|ms|s)\b/.exec(text.slice(found[0].length));
  return Number(found[0]) * (unit ? UNITS[unit[1]] : 1);
}

function compareValues(a, b) {
  if (a === "" || b === "") return (a === "") - (b === "");
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", {numeric: true});
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    if (!head.textContent) return;
    const button = h("button", {type: "button"}, ...head.childNodes);
    head.append(button);
    button.onclick = () => {
      const falling = head.getAttribute("aria-sort") === "ascending";
      for (const one of heads) one.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const body = table.tBodies[0];
      const lines = [...body.rows].map((line) => [sortValue(line.cells[at]), line]);
      lines.sort(([a], [b]) => a === "" || b === "" ? compareValues(a, b)
          : (falling ? -1 : 1) * compareValues(a, b));
      body.append(...lines.map(([, line]) => line));
      say(`Sorted by ${head.textContent}, ${falling ? "falling" : "rising"}.`);
    };
  });
}

// A field above a table that hides the rows in which some of its words are not.
function searchable(scroll, what) {
  const input = h("input", {type: "search", autocomplete: "off"});
  const count = h("span", {class: "note", role: "status"});
  input.oninput = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const lines = [...scroll.querySelectorAll("tbody tr:not(.of-another)")];
    for (const line of lines) {
      const text = line.textContent.toLowerCase();
      line.hidden = !words.every((word) => text.includes(word));
    }
    const left = lines.filter((line) => !line.hidden).length;
    count.textContent = words.length ? `${left} of ${lines.length}` : "";
  };
  scroll.before(h("p", {class: "field"}, h("label", {}, `Search ${what} `, input), " ", count));
}
