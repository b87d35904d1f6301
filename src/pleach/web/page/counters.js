// The strip of numbers at the top.

import { el, keyed, setText } from "./dom.js";
import { count, short } from "./format.js";

export function showCounters(list, picture) {
  const brokers = Object.values(picture.brokers);
  const links = Object.values(picture.links);
  const silent = brokers.filter((broker) => !broker.answers).length;
  const queued = links.reduce((sum, link) => sum + link.queued_there + link.queued_back, 0);
  const held = brokers.reduce((sum, broker) => sum + broker.held, 0);
  const { published = 0, delivered = 0, refused = 0, publish_rate = 0, deliver_rate = 0 } = picture.counters;
  const entries = [
    ["brokers", count(brokers.length), silent ? `${silent} silent` : "", silent > 0],
    ["clients", count(Object.keys(picture.clients).length), "", false],
    ["published", short(published), rate(publish_rate), false],
    ["delivered", short(delivered), rate(deliver_rate), false],
    ["refused", short(refused), "", refused > 0],
    ["queued", short(queued), held ? `${short(held)} held` : "", false],
    ...verdict(picture.verdict),
  ];
  keyed(
    list,
    entries.map((entry) => [entry[0], entry]),
    make,
    update,
  );
}

const rate = (perSecond) => (perSecond ? `${short(perSecond)}/s` : "");

// The audit's, where a trace is replayed.
function verdict(judged) {
  if (!judged) return [];
  const found = Object.entries(judged.found).filter(([, number]) => number);
  const detail =
    found.map(([rule, number]) => `${number} ${rule}`).join(", ") || judged.unusable || "nothing lost or doubled";
  return [["verdict", judged.outcome, detail, judged.outcome !== "clean"]];
}

function make(name) {
  return el("div", {}, el("dt", { textContent: name }), el("dd", {}, el("b"), el("small")));
}

function update(node, [, value, detail, isBad]) {
  setText(node.querySelector("b"), value);
  setText(node.querySelector("small"), detail);
  node.classList.toggle("bad", isBad);
}
