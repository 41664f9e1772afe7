"use strict";
// What all parts of the page's script use. scripts/stepper.py joins the parts, in the order of its SCRIPTS.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SECTOR = 32, BANKS = 32, WORD = 4, LANES = 32, ROW = BANKS * WORD;
const SHARED = -1;
const BYTES = {
  f32: 4,
  f16: 2,
  bf16: 2,
  tf32: 4,
  e4m3: 1,
  e5m2: 1,
  e2m1: 0.5,
  f64: 8,
  i4: 0.5,
  i8: 1,
  i32: 4,
  i64: 8,
  u8: 1,
  u32: 4,
  u64: 8
};
const NOUN = {
  f32: "float",
  f16: "half",
  bf16: "bfloat16",
  tf32: "float",
  e4m3: "byte",
  e5m2: "byte",
  e2m1: "nibble",
  f64: "double",
  i4: "nibble",
  i8: "byte",
  i32: "int",
  i64: "long",
  u8: "byte",
  u32: "int",
  u64: "long"
};
const KINDS = [
  {key: "global_load", ops: ["ld"], name: "Loads", one: "load", unit: "sector"},
  {key: "global_store", ops: ["st"], name: "Stores", one: "store", unit: "sector"},
  {key: "global_atomic", ops: ["atom"], name: "Atomics", one: "atomic update", unit: "sector"},
  {key: "shared_load", ops: ["lds"], name: "Shared loads", one: "load from shared memory", unit: "wavefront"},
  {key: "shared_store", ops: ["sts"], name: "Shared stores", one: "store to shared memory", unit: "wavefront"},
  {
    key: "shared_atomic",
    ops: ["atoms"],
    name: "Shared atomics",
    one: "atomic update of shared memory",
    unit: "wavefront"
  },
  {key: "shared_async", ops: ["cpa"], name: "Copies (cp.async)", one: "copy to shared memory", unit: "wavefront"},
  {key: "shared_stmatrix", ops: ["stmatrix"], name: "stmatrix", one: "stmatrix", unit: "wavefront"},
  {
    key: "cluster_load",
    ops: ["ldc"],
    name: "DSMEM loads",
    one: "load from the cluster's shared memory",
    unit: "wavefront"
  },
  {
    key: "cluster_store",
    ops: ["stc"],
    name: "DSMEM stores",
    one: "store to the cluster's shared memory",
    unit: "wavefront"
  },
];
const NARROW = matchMedia("(max-width: 600px)");  // pictures have fewer columns and larger letters
const $ = (id) => document.getElementById(id);
const element = (name, attributes = {}, ...children) => {
  const svg = ["svg", "rect", "path", "text", "line", "g", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
const short = (label) => label.split("_")[0];
const times = (x) => (x >= 9.95     ? Math.round(x) :
                          x >= 1.95 ? Math.round(x * 10) / 10 :
                                      Math.round(x * 100) / 100)
                         .toString();
const isWaste = (units, ideal) => units > 1.2 * ideal;
const FEW_LANES = 16;
const isPoor = (step) =>
    step.kind !== undefined && (isWaste(step.units, step.ideal) || step.lanes.length < FEW_LANES);

/** Bytes from each lane's address to the next one's, where that is the same for all. */
function distance(step) {
  const distances = new Set(step.addresses.slice(1).map((a, i) => a - step.addresses[i]));
  return distances.size === 1 ? [...distances][0] : undefined;
}

const bits = (mask) => {
  let n = 0;
  for (let i = 0; i < LANES; ++i) n += mask >>> i & 1;
  return n;
};

/** Paths, by the shade of what they show. */
function shades(byShade) {
  return [...byShade].map(([shade, d]) => {
    const path = element("path", {class: "shade", d});
    path.style.setProperty("--l", shade);
    return path;
  });
}
