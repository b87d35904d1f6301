// Links by what waits on them, and then by their traffic.

import { el, keyed, setText } from "./dom.js";
import { bytes, count, duration } from "./format.js";

const SHOWN_MAX = 60;
const HEADS = ["link", "queued", "traffic", "confirmed in"];

export class QueuesPanel {
  constructor(panel, store) {
    this.store = store;
    this.body = el("tbody");
    const head = el("tr", {}, ...HEADS.map((text) => el("th", { scope: "col", textContent: text })));
    panel.append(
      el("h2", { textContent: "Queues and traffic" }),
      el("table", { className: "queues" }, el("thead", {}, head), this.body),
    );
  }

  render() {
    const links = Object.entries(this.store.picture.links).map(([key, link]) => [
      key,
      link,
      link.queued_there + link.queued_back,
      link.there + link.back,
    ]);
    links.sort((one, other) => one[1].up - other[1].up || other[2] - one[2] || other[3] - one[3]);
    keyed(
      this.body,
      links.slice(0, SHOWN_MAX).map(([key, link]) => [key, link]),
      (key) => this.#make(key),
      update,
    );
  }

  #make(key) {
    const button = el("button", { type: "button", className: "plain" });
    button.addEventListener("click", () => this.store.select({ kind: "link", key }));
    return el("tr", {}, el("th", { scope: "row" }, button), el("td"), el("td"), el("td"));
  }
}

function update(row, link) {
  setText(row.querySelector("button"), `${link.a} – ${link.b}`);
  const [queued, traffic, trip] = row.querySelectorAll("td");
  setText(queued, link.up ? `${count(link.queued_there)} → · ← ${count(link.queued_back)}` : "down");
  setText(traffic, `${bytes(link.there + link.back)}/s`);
  setText(trip, link.round_trip === undefined ? "–" : duration(link.round_trip));
  row.classList.toggle("bad", !link.up);
  row.classList.toggle("waits", link.queued_there + link.queued_back > 0);
}
