// The picture that is shown now, what follows from it, and who wants to know when it changes.

import { merge, table } from "./merge.js";

const EMPTY = {
  source: { kind: "", title: "", can: [], runs: [], trouble: "" },
  at: 0,
  brokers: {},
  links: {},
  clients: {},
  operations: {},
  runs: {},
  notices: {},
  counters: {},
};
const TABLES = { broker: "brokers", client: "clients", link: "links" };

export class Store extends EventTarget {
  picture = merge(table(), EMPTY);
  neighbours = new Map(); // broker → sorted names
  guests = new Map(); // broker → sorted clients
  selected = null; // { kind: "broker" | "client" | "link", key }
  wanted = null; // clients that a filter has found, or null
  shapeVersion = 0; // of the tree: brokers and links, not what they carry

  whole(picture) {
    this.picture = merge(merge(table(), EMPTY), picture);
    this.#reshape();
    this.#tell();
  }

  patch(patch) {
    merge(this.picture, patch);
    if (changesShape(patch.links) || changesShape(patch.brokers)) this.#reshape();
    else if (patch.clients) this.#reseat();
    this.#tell();
  }

  select(selected) {
    this.selected = selected;
    this.dispatchEvent(new Event("select"));
  }

  want(clients) {
    this.wanted = clients;
    this.dispatchEvent(new Event("change"));
  }

  #reshape() {
    this.shapeVersion += 1;
    const neighbours = new Map(
      Object.keys(this.picture.brokers)
        .sort()
        .map((name) => [name, []]),
    );
    for (const { a, b } of Object.values(this.picture.links)) {
      neighbours.get(a)?.push(b);
      neighbours.get(b)?.push(a);
    }
    for (const names of neighbours.values()) names.sort();
    this.neighbours = neighbours;
    this.#reseat();
  }

  #reseat() {
    this.guests = new Map();
    for (const [name, { broker }] of Object.entries(this.picture.clients)) {
      if (!this.guests.has(broker)) this.guests.set(broker, []);
      this.guests.get(broker).push(name);
    }
    for (const names of this.guests.values()) names.sort();
  }

  #tell() {
    const { selected } = this;
    if (selected && !(selected.key in this.picture[TABLES[selected.kind]])) this.select(null);
    this.dispatchEvent(new Event("change"));
  }
}

// Whether entries have come or gone: new ones are sent with their fixed fields, changed ones without.
function changesShape(entries) {
  return Object.values(entries ?? {}).some((entry) => entry === null || "a" in entry || "zone" in entry);
}

export const linkKey = (a, b) => (a < b ? `${a}\n${b}` : `${b}\n${a}`);
