// Making elements of HTML and SVG. Texts are texts: nothing of a CSV becomes markup.

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

const h = (tag, attributes = {}, ...children) =>
    made(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
    made(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const byId = (id) => document.getElementById(id);
const region = (label, ...children) =>
    h("div", {class: "scroll", role: "region", tabindex: 0, "aria-label": label}, ...children);

function say(text) {
  byId("said").textContent = text;
}

// The address of a view; what it doesn't name the view chooses.
function address(view, choice = {}) {
  const chosen = Object.entries({view, ...choice}).filter(([, value]) => value !== undefined);
  return `#${new URLSearchParams(chosen)}`;
}

const whyOf = (row) => address("why", {
  family: row.family, op: row.op, dtype: row.dtype, problem: row.problem, cache: row.cache,
  run: row.run, version: row.kernel,
});

// One tab stop for all of `links`: arrows go from one to the next, Home and End to the ends.
function roving(links) {
  const first = links.find((link) => link.hasAttribute("aria-current")) ?? links[0];
  links.forEach((link, i) => {
    link.setAttribute("tabindex", link === first ? 0 : -1);
    link.addEventListener("keydown", (event) => {
      const to = {ArrowDown: i + 1, ArrowRight: i + 1, ArrowUp: i - 1, ArrowLeft: i - 1, Home: 0,
                  End: links.length - 1}[event.key];
      if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const next = links[Math.max(0, Math.min(links.length - 1, to))];
      for (const one of links) one.setAttribute("tabindex", one === next ? 0 : -1);
      next.focus();
    });
  });
}

// ---- What a point says when it is pointed at or has the focus

function tells(node, lines) {
  const show = () => {
    const tip = byId("tip");
    tip.replaceChildren(...lines.filter(Boolean).map((line, i) => h(i ? "div" : "strong", {}, line)));
    tip.hidden = false;
    const at = node.getBoundingClientRect(), size = tip.getBoundingClientRect();
    const left = Math.max(4, Math.min(at.left + at.width / 2 - size.width / 2,
                                      document.documentElement.clientWidth - size.width - 4));
    const above = at.top - size.height - 8;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(above > 0 ? above : at.bottom + 8) + scrollY}px`;
  };
  node.addEventListener("pointerenter", show);
  node.addEventListener("focus", show);
  for (const end of ["pointerleave", "blur"]) node.addEventListener(end, hideTip);
}

function hideTip() {
  byId("tip").hidden = true;
}

function says(row) {
  const level = row.ratio_text === "level";
  return [
    `${spoken(row.kernel)} · ${row.problem} · ${gpuOf(row)}`, row.idea,
    [row.time_text, row.burst_text && `burst ${row.burst_text}`, row.speed_text]
        .filter(Boolean).join(", "),
    row.joules_text && `${row.joules_text} a launch`,
    row.share_text && `${row.share_text} of ${row.roof}`,
    row.ratio_text && !row.library && (level ? `level with ${row.against}`
                                            : `${ratioText(row)} of ${row.against}'s speed`),
    row.tied, marks(row).join(", "),
  ];
}

function ratioText(row) {
  if (row.ratio === null) return "";
  const interval = row.low === null || row.high === null
      ? "" : ` [${row.low.toFixed(3)},\u00a0${row.high.toFixed(3)}]`;
  return (row.ratio_text === "level" ? "level" : row.ratio.toFixed(3)) + interval;
}

function marks(row) {
  const found = [];
  if (row.suspect) found.push("suspect");
  if (row.throttled > 0) found.push(`throttled ${Math.round(100 * row.throttled)} %`);
  if (row.limited) found.push("at the power limit");
  if (row.launch_bound) found.push("short");
  if (row.earlier) found.push("earlier code");
  if (report.runs[row.run].earlier) found.push("earlier protocol");
  return found;
}

const badge = (text) => h("span", {class: "badge", ...(text === "earlier code" && {title: report.earlier})}, text);
const badges = (row) => h("span", {}, ...[row.tied, ...marks(row)].filter(Boolean)
    .flatMap((text) => [badge(text), " "]), row.reason);
