// What has been touched up to a step, and where the values that lie there come from.

class History {
  constructor(trace) {
    this.trace = trace;
    this.version = 0;  // rises with each change, so that a picture knows whether it is of today
    this.forget();
  }

  forget() {
    this.done = 0;
    this.hands = new Map();     // by warp and lane: what it last loaded
    this.words = new Map();     // of shared memory: what each holds
    this.arrays = new Map();    // by place: what was touched, by address
    this.versions = new Map();  // by place
    ++this.version;
  }

  goTo(at) {
    if (at + 1 < this.done) this.forget();
    while (this.done <= at) {
      const next = this.trace.list[this.done++];
      for (const other of next.beside) this.remember(other);
      this.remember(next);
    }
  }

  touched(place) {
    return this.arrays.get(place) || new Map();
  }
  versionOf(place) {
    return `${this.versions.get(place) || 0} ${this.version}`;
  }

  /** The shade of a value is the lane that first held it. `from` is what the lane had loaded last: an address
      of an array, or what a word of shared memory held. */
  remember(step) {
    if (step.type !== "q") return;
    const {place} = step, reads = step.op === "ld" || step.op === "lds" || step.op === "ldc";
    if (!this.arrays.has(place)) this.arrays.set(place, new Map());
    this.versions.set(place, (this.versions.get(place) || 0) + 1);
    step.lanes.forEach((lane, i) => {
      const key = step.warp * LANES + lane, address = step.addresses[i], word = Math.floor(address / WORD);
      let shade = lane;
      if (step.cluster) {
        if (reads) this.hands.set(key, {shade});
        return;
      }
      if (step.op === "ld" && !step.ofCopy) this.hands.set(key, {shade: lane, place, address, width: step.width});
      const hand = this.hands.get(key);
      if (step.op === "lds") {
        const held = this.words.get(word);
        shade = held ? held.shade : lane;
        this.hands.set(key, {shade, word, held});
      } else if (!reads && hand && step.op !== "cpa") {
        shade = hand.shade;
      }
      const by = {shade, lane, warp: step.warp, width: step.width, op: step.op};
      const from = (bytes) => {
        if (step.op === "cpa") {
          const inside = step.from && step.from.place >= 0;  // else it is past an edge, and zeros are written
          return inside ? {place: step.from.place, address: step.from.addresses[i] + bytes, width: WORD} :
                          undefined;
        }
        const exact = hand && hand.place !== undefined && hand.width >= step.width;
        return exact ? {...hand, address: hand.address + bytes, width: WORD} : hand;
      };
      if (step.shared && !reads) {
        for (let w = 0; w < Math.max(1, step.width / WORD); ++w)
          this.words.set(word + w, {...by, from: from(w * WORD)});
      }
      this.arrays.get(place).set(address, {...by, from: from(0)});
    });
  }
}
