// Clients and where they are; and which of them would get events of some filter.

import { ask } from "./ask.js";
import { el, keyed, setText } from "./dom.js";
import { count, plural } from "./format.js";

const SHOWN_MAX = 100;

export class ClientsPanel {
  constructor(panel, store) {
    this.store = store;
    this.input = el("input", {
      id: "filter",
      type: "text",
      spellcheck: false,
      autocomplete: "off",
      placeholder: "topic = 'orders' AND price > 50",
    });
    this.input.setAttribute("aria-describedby", "filter-answer");
    this.answer = el("output", { id: "filter-answer", className: "answer" });
    const form = el(
      "form",
      { className: "filter" },
      el("label", { htmlFor: "filter", textContent: "Who would get such events?" }),
      el("div", { className: "line" }, this.input, el("button", { textContent: "Ask" })),
      this.answer,
    );
    form.addEventListener("submit", (event) => this.#ask(event));
    this.more = el("p", { className: "note" });
    this.rows = el("ul", { className: "rows" });
    panel.append(el("h2", { textContent: "Clients" }), form, this.rows, this.more);
  }

  render() {
    const { picture, wanted } = this.store;
    const all = Object.entries(picture.clients)
      .filter(([name]) => !wanted || wanted.has(name))
      .sort(([one], [other]) => (one < other ? -1 : 1));
    keyed(
      this.rows,
      all.slice(0, SHOWN_MAX),
      (name) => this.#make(name),
      (node, client) => update(node, client),
    );
    setText(
      this.more,
      all.length > SHOWN_MAX
        ? `and ${count(all.length - SHOWN_MAX)} more: find them by name`
        : all.length
          ? ""
          : wanted
            ? ""
            : "No client is attached.",
    );
  }

  async #ask(event) {
    event.preventDefault();
    const filter = this.input.value.trim();
    if (!filter) return this.#show(null, "");
    try {
      const { clients } = await ask("interest", { filter });
      const names = Object.keys(clients);
      this.#show(new Set(names), `${plural(names.length, "client")} would, as far as subscriptions tell.`);
    } catch (refusal) {
      this.#show(null, caret(filter, refusal), true);
    }
  }

  #show(wanted, text, isBad = false) {
    this.answer.value = text;
    this.answer.classList.toggle("bad", isBad);
    this.input.setAttribute("aria-invalid", String(isBad));
    this.store.want(wanted);
  }

  #make(name) {
    const button = el("button", { type: "button", className: "row" }, el("span", { textContent: name }), el("small"));
    button.addEventListener("click", () => this.store.select({ kind: "client", key: name }));
    return el("li", {}, button);
  }
}

// The filter as it was typed, and a mark under the place that cannot be read.
function caret(filter, { message, reason, column }) {
  return column ? `column ${column}: ${reason}\n${filter}\n${" ".repeat(column - 1)}^` : message;
}

function update(node, { broker, up, queued, subscriptions }) {
  const state = up ? "" : ", not connected";
  const wants = plural(subscriptions, "subscription");
  const waits = queued ? ` · ${count(queued)} unconfirmed` : "";
  setText(node.querySelector("small"), `at ${broker}${state} · ${wants}${waits}`);
}
