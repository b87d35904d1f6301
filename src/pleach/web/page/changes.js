// Reconfigurations, the latest first, each step by step as its brokers told it; and plans carried out from here.

import { el, keyed, setText } from "./dom.js";
import { count, duration, moment } from "./format.js";

const SHOWN_MAX = 30;
const RUNNING = "running"; // such cards are open, and so is the newest

export class ChangesPanel {
  #isWatched = false; // whether somebody has looked here before: then what is new is opened

  constructor(panel, store) {
    this.store = store;
    this.runs = el("ul", { className: "cards" });
    this.list = el("ul", { className: "cards" });
    this.none = el("p", { className: "note", textContent: "Nothing has been changed yet." });
    panel.append(el("h2", { textContent: "Changes of the tree" }), this.none, this.runs, this.list);
  }

  render() {
    const { runs, operations } = this.store.picture;
    const begun = Object.entries(runs).sort((one, other) => other[1].started_at - one[1].started_at);
    const active = begun.filter(([, run], place) => run.state !== "done" || place === 0);
    const latest = Object.entries(operations).sort((one, other) => other[1].asked_at - one[1].asked_at);
    this.none.hidden = latest.length + active.length > 0;
    const newest = latest[0]?.[0];
    const isAwaited = this.#isWatched || begun.length > 0; // who has a plan carried out wants to see what it does
    const make = (name, { state }) => makeCard(state === RUNNING || (isAwaited && name === newest));
    keyed(this.runs, active, (name, { state }) => makeCard(state !== "done"), updateRun); // who was refused reads why
    keyed(this.list, latest.slice(0, SHOWN_MAX), make, (node, operation, name) => {
      const hasEnded = node.querySelector(".state").dataset.state === RUNNING && operation.state !== RUNNING;
      if (hasEnded && name !== newest) node.querySelector("details").open = false;
      updateOperation(node, operation);
    });
    this.#isWatched = true;
  }
}

function makeCard(isOpen) {
  const steps = el("ol", { className: "steps" });
  const summary = el("summary", {}, el("b"), el("span", { className: "state" }), el("small"));
  return el("li", {}, el("details", { open: isOpen }, summary, el("p", { className: "note" }), steps));
}

function updateCard(node, { title, state, small, note, steps }) {
  setText(node.querySelector("b"), title);
  const word = node.querySelector(".state");
  setText(word, state);
  word.dataset.state = state;
  setText(node.querySelector("small"), small);
  setText(node.querySelector(".note"), note);
  keyed(
    node.querySelector(".steps"),
    steps,
    () => el("li", {}, el("span"), el("small")),
    (item, [text, detail]) => {
      setText(item.querySelector("span"), text);
      setText(item.querySelector("small"), detail);
    },
  );
}

export const titleOf = ({ what, brokers }) => `${what} ${brokers.join(" ")}`.trim();

function updateOperation(node, operation) {
  const { asked_at, ended_at, held, flooded, reason, state, steps } = operation;
  const counts = [
    held === undefined ? "" : `${count(held)} held`,
    flooded === undefined ? "" : `${count(flooded)} flooded`,
  ].filter(Boolean);
  const took = ended_at === undefined ? "" : ` · ${duration(ended_at - asked_at)}`;
  updateCard(node, {
    title: titleOf(operation),
    state,
    small: `${moment(asked_at)}${took}${counts.length ? ` · ${counts.join(", ")}` : ""}`,
    note: reason,
    steps: Object.entries(steps).map(([key, step]) => [
      key,
      [stepText(step), `+${duration(Math.max(0, step.at - asked_at))}`],
    ]),
  });
}

// A swap's brokers are a, b and c in its protocol, whatever their names.
function stepText({ broker, phase }) {
  const [, role, rest] = /^([abc]) (.*)$/.exec(phase) ?? [];
  return role ? `${broker}, as ${role}: ${rest}` : `${broker}: ${phase}`;
}

function updateRun(node, run) {
  updateCard(node, {
    title: "plan",
    state: run.state,
    small: run.title,
    note: "",
    steps: Object.entries(run.steps).map(([key, step]) => [
      key,
      [step.text, step.reason ? `${step.state}: ${step.reason}` : step.state],
    ]),
  });
}
