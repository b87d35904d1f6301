// What happened when: operations as bars, and what befell brokers as marks, of the last minutes or of a whole run.

import { titleOf } from "./changes.js";
import { el, keyed, setText } from "./dom.js";
import { moment } from "./format.js";

const WINDOW_SECONDS = 180;
const LANES = 3;
const TICKS = 6;

export class Timeline {
  constructor(list, axis, store, onPick) {
    this.list = list;
    this.axis = axis;
    this.store = store;
    this.onPick = onPick;
    this.film = null; // { from, to, operations, notices } of a replay: all that is ever going to happen in it
  }

  render() {
    const { picture } = this.store;
    const {
      from,
      to,
      operations: all,
      notices: news,
    } = this.film ?? { from: picture.at - WINDOW_SECONDS, to: picture.at, ...picture };
    const scale = (at) => Math.max(0, Math.min(100, (100 * (at - from)) / (to - from || 1)));
    const operations = Object.entries(all).filter(([, operation]) => (operation.ended_at ?? to) >= from);
    const notices = Object.entries(news).filter(([, notice]) => notice.at >= from);
    const entries = [
      ...operations.map(([name, operation]) => [
        `o${name}`,
        {
          name,
          at: operation.asked_at,
          end: operation.ended_at ?? to,
          text: `${titleOf(operation)}: ${operation.state}`,
          state: operation.state,
        },
      ]),
      ...notices.map(([number, notice]) => [
        `n${number}`,
        { at: notice.at, text: notice.text, state: notice.is_bad ? "trouble" : "news" },
      ]),
    ].sort((one, other) => one[1].at - other[1].at);
    this.list.classList.toggle("empty", entries.length === 0);
    const lanes = new Array(LANES).fill(-Infinity);
    keyed(
      this.list,
      entries,
      (key, entry) => this.#make(entry),
      (node, entry) => place(node, entry, scale, lanes),
    );
    this.#ticks(from, to);
  }

  #make({ name, at }) {
    const button = el("button", { type: "button" });
    button.addEventListener("click", () => this.onPick(name, at));
    return el("li", {}, button);
  }

  #ticks(from, to) {
    const times = Array.from({ length: TICKS }, (_, i) => from + ((to - from) * i) / (TICKS - 1));
    keyed(
      this.axis,
      times.map((at, i) => [String(i), at]),
      () => el("span"),
      (node, at) => setText(node, this.film ? moment(at - from) : at === to ? "now" : `−${Math.round(to - at)} s`),
    );
  }
}

// In the first lane that is free by then.
function place(node, { at, end, text, state }, scale, lanes) {
  const button = node.firstChild;
  const left = scale(at);
  const width = end === undefined ? 0 : scale(end) - left;
  const free = lanes.findIndex((until) => until <= left);
  const lane = free < 0 ? 0 : free;
  lanes[lane] = left + width + 0.8;
  node.style.left = `${left}%`;
  node.style.width = `${width}%`;
  node.style.setProperty("--lane", lane);
  button.dataset.state = state;
  const title = `${moment(at)}  ${text}`;
  if (button.title !== title) {
    button.title = title;
    button.setAttribute("aria-label", title);
  }
}
