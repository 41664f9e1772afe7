// The search over all versions, at the top of the page.

function setUpSearch() {
  const input = byId("search"), list = byId("found");
  const versions = new Map();
  for (const row of rows.filter((row) => !row.vendor && !row.peer)) {
    const name = `${row.family}/${row.kernel}`;
    const main = report.main[ladderName(row)];
    if (!versions.has(name) || row.problem === main.problem && !versions.get(name).main)
      versions.set(name, {row, main: row.problem === main.problem});
  }
  const entries = [...versions.values()].map(({row}) => ({
    row, text: `${row.family} ${spoken(row.kernel)} ${row.kernel} ${row.idea}`.toLowerCase(),
  }));
  let at = -1;

  const options = () => [...list.children];
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", false);
    input.removeAttribute("aria-activedescendant");
    at = -1;
  };
  const mark = (to) => {
    at = to;
    options().forEach((option, i) => option.setAttribute("aria-selected", i === at));
    if (at < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", options()[at].id);
    options()[at].scrollIntoView({block: "nearest"});
  };
  const open = (row) => {
    input.value = "";
    close();
    location.hash = whyOf(row);
  };
  input.oninput = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length
        ? entries.filter(({text}) => words.every((word) => text.includes(word))) : [];
    list.replaceChildren(...found.slice(0, 12).map(({row}, i) => h("li", {
      id: `found-${i}`, role: "option", "aria-selected": false,
      onpointerdown: (event) => { event.preventDefault(); open(row); },
    }, h("strong", {}, `${row.family} ${spoken(row.kernel)}`), h("span", {}, row.idea))));
    if (!words.length) return close();
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", found.length > 0);
    mark(found.length ? 0 : -1);
    say(found.length ? `${found.length} versions` : "No version has these words.");
    input.found = found;
  };
  input.onkeydown = (event) => {
    if (event.key === "Escape") { input.value = ""; close(); }
    if (list.hidden) return;
    const count = options().length;
    if (event.key === "ArrowDown") mark((at + 1) % count);
    else if (event.key === "ArrowUp") mark((at + count - 1) % count);
    else if (event.key === "Enter" && at >= 0) open(input.found[at].row);
    else return;
    event.preventDefault();
  };
  input.onblur = close;
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    input.focus();
  });
}
