// The difference of two texts, line by line: the longest common subsequence.

function differenceOf(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  const width = b.length + 1;
  const common = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; --i)
    for (let j = b.length - 1; j >= 0; --j)
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  const lines = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({kind: " ", text: a[i++]});
      ++j;
    } else if (j === b.length ||
               i < a.length && common[(i + 1) * width + j] >= common[i * width + j + 1]) {
      lines.push({kind: "-", text: a[i++]});
    } else {
      lines.push({kind: "+", text: b[j++]});
    }
  }
  return lines;
}

// Of lines that are equal in both only the `around` nearest to a change are shown.
function differenceNode(lines, around = 3) {
  const near = new Set();
  lines.forEach((line, i) => {
    if (line.kind !== " ") for (let k = i - around; k <= i + around; ++k) near.add(k);
  });
  const node = h("code", {});
  let left = 0;
  const skip = () => {
    if (left) node.append(h("span", {class: "equal"}, `  … ${left} lines alike\n`));
    left = 0;
  };
  lines.forEach((line, i) => {
    if (!near.has(i)) return void ++left;
    skip();
    const tag = {"+": "ins", "-": "del", " ": "span"}[line.kind];
    node.append(h(tag, {}, `${line.kind} ${line.text}\n`));
  });
  skip();
  return node;
}
