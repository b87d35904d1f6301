// What is known of the broker, link or client that is selected; of the whole tree where nothing is.

import { ask } from "./ask.js";
import { el, keyed, setText } from "./dom.js";
import { bytes, count, duration, plural } from "./format.js";
import { linkKey } from "./store.js";

const ROWS_MAX = 60;
const OFFERS = { broker: ["drain", "remove"], client: ["move"], link: [] }; // what can be done with what is selected

export class SelectionPanel {
  #detail = null; // what the broker says of itself, once it was asked
  #asked = "";

  // labelOf: what an action is called; onWish: somebody wants one
  constructor(panel, store, { labelOf, onWish }) {
    this.store = store;
    this.labelOf = labelOf;
    this.onWish = onWish;
    this.offers = el("div", { className: "offers" });
    this.heading = el("h2");
    this.note = el("p", { className: "note" });
    this.facts = el("dl", { className: "facts" });
    this.sub = el("h3");
    this.rows = el("ul", { className: "rows" });
    panel.append(this.heading, this.note, this.offers, this.facts, this.sub, this.rows);
    store.addEventListener("select", () => this.#learn());
  }

  // A broker's subscriptions are not in the picture: they are asked for when somebody wants to see them.
  async #learn() {
    const { selected } = this.store;
    const broker =
      selected?.kind === "broker"
        ? selected.key
        : selected?.kind === "client"
          ? this.store.picture.clients[selected.key].broker
          : "";
    this.#detail = null;
    this.#asked = broker;
    this.render();
    if (!broker || this.store.picture.source.kind !== "live") return;
    const detail = await ask("broker", { broker }).catch(() => null);
    if (this.#asked !== broker) return;
    this.#detail = detail;
    this.render();
  }

  render() {
    const { selected, picture } = this.store;
    const shown = {
      broker: () => this.#broker(selected.key),
      link: () => this.#link(selected.key),
      client: () => this.#client(selected.key),
    };
    const {
      title,
      note = "",
      isBad = false,
      facts,
      sub = "",
      rows = [],
    } = selected ? shown[selected.kind]() : this.#whole(picture);
    setText(this.heading, title);
    setText(this.note, note);
    this.note.classList.toggle("bad", isBad);
    keyed(
      this.facts,
      facts.map((fact) => [fact[0], fact]),
      makeFact,
      (node, [, value]) => setText(node.querySelector("dd"), value),
    );
    this.#offer(selected, picture.source.can);
    setText(this.sub, sub);
    this.sub.hidden = !sub;
    keyed(
      this.rows,
      rows.slice(0, ROWS_MAX).map((row) => [row.key, row]),
      (key, row) => this.#makeRow(row),
      updateRow,
    );
  }

  #offer(selected, can) {
    const names = selected ? OFFERS[selected.kind].filter((name) => can.includes(name)) : [];
    keyed(
      this.offers,
      names.map((name) => [name, name]),
      (name) => this.#makeOffer(name),
      () => {},
    );
  }

  #makeOffer(name) {
    const button = el("button", { type: "button", textContent: `${this.labelOf(name).split(" ")[0]}…` });
    button.setAttribute("aria-label", `${this.labelOf(name)}: this one`);
    button.addEventListener("click", () => this.onWish(name));
    return button;
  }

  #whole(picture) {
    const links = Object.values(picture.links);
    const silent = Object.entries(picture.brokers).filter(([, broker]) => !broker.answers || broker.trouble);
    const traffic = links.reduce((sum, link) => sum + link.there + link.back, 0);
    return {
      title: "The whole tree",
      note: "Select a broker or a link to read about it.",
      facts: [
        ["brokers", count(Object.keys(picture.brokers).length)],
        ["links", `${count(links.length)}, ${count(links.filter((link) => !link.up).length)} down`],
        ["clients", count(Object.keys(picture.clients).length)],
        ["traffic", `${bytes(traffic)}/s on all links`],
        ["counted since", picture.source.kind === "replay" ? "the run began" : "each broker's start"],
      ],
      sub: silent.length ? "In trouble" : "",
      rows: silent.map(([name, broker]) => ({
        key: name,
        kind: "broker",
        target: name,
        text: name,
        detail: broker.answers ? broker.trouble : `does not answer: ${broker.trouble}`,
        isBad: true,
      })),
    };
  }

  #broker(name) {
    const { picture, neighbours, guests } = this.store;
    const broker = picture.brokers[name];
    const links = neighbours.get(name).map((other) => linkRow(name, other, picture.links[linkKey(name, other)]));
    const clients = (guests.get(name) ?? []).map((client) => clientRow(client, picture.clients[client], this.#detail));
    return {
      title: name,
      note: broker.answers
        ? broker.trouble || (broker.operation ? `takes part in operation ${broker.operation}` : "ready")
        : `does not answer: ${broker.trouble}`,
      isBad: !broker.answers || Boolean(broker.trouble),
      facts: [
        ["zone", broker.zone || "none given"],
        [
          "keeps its state",
          broker.durable
            ? "on disk"
            : picture.source.kind === "live" && broker.answers
              ? "in memory only"
              : "not known",
        ],
        ...standbyFacts(broker),
        ["clients", count(broker.clients)],
        ["waiting to be sent", bytes(broker.queued_bytes)],
        ["held by changes", count(broker.held)],
        ...Object.entries(broker.under_way).map(([operation, how]) => [`operation ${operation}`, how]),
        ["admin port", broker.admin || "not known"],
      ],
      sub: "Links and clients",
      rows: [...links, ...clients],
    };
  }

  #link(key) {
    const link = this.store.picture.links[key];
    return {
      title: `${link.a} – ${link.b}`,
      note: link.up ? (link.relay ? `through ${link.relay}` : "up") : "down",
      isBad: !link.up,
      facts: [
        ["confirmed within", link.round_trip === undefined ? "not measured yet" : duration(link.round_trip)],
        [`${link.a} → ${link.b}`, `${bytes(link.there)}/s, ${count(link.queued_there)} queued`],
        [`${link.b} → ${link.a}`, `${bytes(link.back)}/s, ${count(link.queued_back)} queued`],
      ],
      sub: "Brokers",
      rows: [link.a, link.b].map((name) => ({
        key: name,
        kind: "broker",
        target: name,
        text: name,
        detail: this.store.picture.brokers[name]?.zone ?? "",
      })),
    };
  }

  #client(name) {
    const client = this.store.picture.clients[name];
    const subscriptions = Object.entries(this.#detail?.clients?.[name]?.subscriptions ?? {});
    return {
      title: name,
      note: client.up ? "connected" : "not connected; its events are kept",
      facts: [
        ["broker", client.broker],
        ["subscriptions", count(client.subscriptions)],
        ["not confirmed yet", plural(client.queued, "message")],
      ],
      sub: subscriptions.length ? "Subscriptions" : "",
      rows: [
        { key: "broker", kind: "broker", target: client.broker, text: client.broker, detail: "its broker" },
        ...subscriptions.map(([id, filter]) => ({ key: `s${id}`, text: filter, detail: id })),
      ],
    };
  }

  #makeRow(row) {
    if (!row.kind) return el("li", {}, el("span", { className: "row" }, el("span"), el("small")));
    const button = el("button", { type: "button", className: "row" }, el("span"), el("small"));
    button.addEventListener("click", () => this.store.select({ kind: row.kind, key: row.target }));
    return el("li", {}, button);
  }
}

function makeFact(name) {
  return el("div", {}, el("dt", { textContent: name }), el("dd"));
}

function updateRow(node, { text, detail, isBad }) {
  setText(node.querySelector("span:not(.row)"), text);
  setText(node.querySelector("small"), detail);
  node.classList.toggle("bad", Boolean(isBad));
}

function through(link) {
  return link.relay ? `, through ${link.relay}` : "";
}

function linkRow(name, other, link) {
  const trip = link.round_trip === undefined ? "" : `, ${duration(link.round_trip)}`;
  const queued = link.queued_there + link.queued_back;
  const detail = link.up
    ? `${bytes(link.there + link.back)}/s${trip}${queued ? `, ${count(queued)} queued` : ""}${through(link)}`
    : "down";
  return {
    key: `link ${other}`,
    kind: "link",
    target: linkKey(name, other),
    text: `link to ${other}`,
    detail,
    isBad: !link.up,
  };
}

function clientRow(name, client, detail) {
  const filters = Object.values(detail?.clients?.[name]?.subscriptions ?? {});
  const wants = filters.length ? filters.slice(0, 2).join("; ") : plural(client.subscriptions, "subscription");
  return {
    key: `client ${name}`,
    kind: "client",
    target: name,
    text: name,
    detail: client.up ? wants : `not connected; ${wants}`,
  };
}

// Where a broker that has standbys runs, where its data is besides, and how far each copy is behind.
function standbyFacts({ machine, copies = {}, is_covered }) {
  if (!machine) return [];
  const told = Object.entries(copies).map(([name, lacks]) => (lacks ? `${name} (${lacks})` : name));
  const shown = told.join(", ") || "nowhere else";
  return [
    ["runs on", machine],
    ["copies", is_covered ? shown : `${shown}: not covered`],
  ];
}
