// Where brokers are drawn: rings around the middle of the tree, each branch in a wedge as wide as its leaves need.

const RING = 120; // between rings, in units of the drawing
const LEAF_SPACE = 26; // along the outermost ring
const ROOT_GAIN = 0.8; // another root must be this much better before the picture turns around

// → Map name → { x, y, parent }; `before` is such a map, and keeps branches on the side that they were on.
export function laidOut(neighbours, before, root) {
  const places = new Map();
  let offset = 0;
  for (const top of roots(neighbours, root)) {
    const tree = rooted(neighbours, top);
    const radius = place(tree, places, before, offset);
    offset += 2 * radius + 2 * RING; // trees that do not hang together stand side by side
  }
  return places;
}

// The broker whose largest branch is smallest; the one that is in the middle now stays there unless it is much worse.
export function centre(neighbours, current) {
  const first = neighbours.keys().next().value;
  if (first === undefined) return null;
  const { order, parent } = rooted(neighbours, first);
  const size = new Map(order.map((name) => [name, 1]));
  const largest = new Map(order.map((name) => [name, 0]));
  for (const name of order.toReversed()) {
    const up = parent.get(name);
    largest.set(name, Math.max(largest.get(name), order.length - size.get(name)));
    if (up === null) continue;
    size.set(up, size.get(up) + size.get(name));
    largest.set(up, Math.max(largest.get(up), size.get(name)));
  }
  const best = order.reduce((least, name) => (largest.get(name) < largest.get(least) ? name : least), first);
  const keeps = largest.has(current) && largest.get(best) > ROOT_GAIN * largest.get(current);
  return keeps ? current : best;
}

function* roots(neighbours, root) {
  const seen = new Set();
  for (const name of [root, ...neighbours.keys()]) {
    if (seen.has(name) || !neighbours.has(name)) continue;
    for (const reached of rooted(neighbours, name).order) seen.add(reached);
    yield name;
  }
}

function rooted(neighbours, root) {
  const parent = new Map([[root, null]]);
  const depth = new Map([[root, 0]]);
  const order = [root];
  for (const here of order) {
    for (const there of neighbours.get(here)) {
      if (parent.has(there) || !neighbours.has(there)) continue;
      parent.set(there, here);
      depth.set(there, depth.get(here) + 1);
      order.push(there);
    }
  }
  return { order, parent, depth };
}

function place({ order, parent, depth }, places, before, offset) {
  const leaves = countLeaves(order, parent);
  const deepest = Math.max(1, depth.get(order[order.length - 1]));
  const needed = (leaves.get(order[0]) * LEAF_SPACE) / (2 * Math.PI * deepest);
  const ring = Math.max(RING * Math.min(1, 4 / deepest), Math.min(needed, RING));
  const wedge = new Map([[order[0], [-Math.PI / 2, (3 * Math.PI) / 2]]]);
  const children = Map.groupBy(order.slice(1), (name) => parent.get(name));
  for (const name of order) {
    const [from, to] = wedge.get(name);
    const angle = (from + to) / 2;
    const radius = ring * depth.get(name);
    places.set(name, { x: offset + radius * Math.cos(angle), y: radius * Math.sin(angle), parent: parent.get(name) });
    divide(wedge, children.get(name) ?? [], leaves, from, to, turnedFrom(before, name));
  }
  return ring * deepest;
}

function countLeaves(order, parent) {
  const leaves = new Map(order.map((name) => [name, 0]));
  for (const name of order.toReversed()) {
    if (leaves.get(name) === 0) leaves.set(name, 1);
    const up = parent.get(name);
    if (up !== null) leaves.set(up, leaves.get(up) + leaves.get(name));
  }
  return leaves;
}

function divide(wedge, children, leaves, from, to, bearing) {
  const total = children.reduce((sum, name) => sum + leaves.get(name), 0);
  const inOrder = bearing ? children.toSorted((one, other) => bearing(one, from) - bearing(other, from)) : children;
  let start = from;
  for (const name of inOrder) {
    const end = start + ((to - from) * leaves.get(name)) / total;
    wedge.set(name, [start, end]);
    start = end;
  }
}

// In which direction a child was seen before, counted from the start of its parent's wedge.
function turnedFrom(before, name) {
  const here = before?.get(name);
  if (!here) return null;
  return (child, from) => {
    const there = before.get(child);
    if (!there) return Infinity;
    const angle = Math.atan2(there.y - here.y, there.x - here.x) - from;
    return ((angle % (2 * Math.PI)) + 2 * Math.PI) % (2 * Math.PI);
  };
}
