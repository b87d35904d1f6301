// Buttons that change the tree. Each is a small form, whose plan is shown, in words and drawn, before anything is done.
// Another action is another entry of ACTIONS, and a wish of the same name in wishes.py.

import { ask } from "./ask.js";
import { el } from "./dom.js";

const isFilled = (wish) => Object.values(wish).every(Boolean);

// fields: what is chosen, each out of names that depend on what was chosen before; wish: what is sent.
const ACTIONS = {
  swap: {
    label: "Swap a link",
    about: "a–b–c becomes a–c–b: the link of the first broker moves from the second to the third.",
    fields: [
      { name: "a", label: "the link of", options: ({ brokers }) => brokers },
      { name: "b", label: "to", options: ({ around, chosen }) => around(chosen.a) },
      {
        name: "c",
        label: "moves to",
        options: ({ around, chosen }) => around(chosen.b).filter((name) => name !== chosen.a),
      },
    ],
    wish: ({ a, b, c }) => ({ a, b, c }),
  },
  exchange: {
    label: "Exchange a link",
    about: "Any link for any other that leaves a tree, by as many swaps as that takes.",
    fields: [
      { name: "x", label: "the link between", options: ({ brokers }) => brokers },
      { name: "y", label: "and", options: ({ around, chosen }) => around(chosen.x) },
      { name: "u", label: "becomes one between", options: ({ brokers }) => brokers },
      { name: "v", label: "and", options: ({ brokers, chosen }) => brokers.filter((name) => name !== chosen.u) },
    ],
    wish: ({ x, y, u, v }) => ({ remove: [x, y], add: [u, v] }),
  },
  add: {
    label: "Add a broker",
    about: "A broker that runs, and has no neighbours, joins the tree.",
    fields: [
      { name: "broker", label: "name of the new broker", text: "b7" },
      { name: "at", label: "its admin address", text: "127.0.0.1:7304" },
      { name: "to", label: "joins at", options: ({ brokers }) => brokers },
    ],
    wish: ({ broker, at, to }) => ({ broker, at, to }),
  },
  remove: {
    label: "Remove a broker",
    about: "Its links and clients go to a neighbour, and its process ends.",
    fields: [
      { name: "broker", label: "broker", options: ({ brokers }) => brokers },
      { name: "to", label: "links and clients go to", options: ({ around, chosen }) => around(chosen.broker) },
      { name: "detach_absent", label: "end the sessions of clients that are not connected", check: true },
    ],
    wish: ({ broker, to, detach_absent }) => ({ broker, to, detach_absent: detach_absent === "yes" }),
  },
};

export class Actions {
  // onPreview: a plan to be drawn, or null; onBegun: a plan is being carried out
  constructor(group, dialog, store, { onPreview, onBegun }) {
    this.group = group;
    this.dialog = dialog;
    this.store = store;
    this.onPreview = onPreview;
    this.onBegun = onBegun;
    this.buttons = new Map();
    for (const [name, action] of Object.entries(ACTIONS)) {
      const button = el("button", { type: "button", textContent: action.label });
      button.addEventListener("click", () => this.#open(name));
      this.buttons.set(name, button);
      group.append(button);
    }
    dialog.addEventListener("close", () => onPreview(null));
  }

  // What the source of the picture can do; nothing, for a replay.
  render() {
    const { can } = this.store.picture.source;
    for (const [name, button] of this.buttons) button.hidden = !can.includes(name);
    this.group.hidden = can.length === 0;
  }

  #open(name) {
    const form = new WishForm(name, ACTIONS[name], this.store, this);
    this.dialog.replaceChildren(form.node);
    this.dialog.showModal();
  }

  close() {
    this.dialog.close();
  }
}

class WishForm {
  #draft = null;
  #controls = new Map();

  constructor(name, action, store, owner) {
    this.name = name;
    this.action = action;
    this.store = store;
    this.owner = owner;
    this.error = el("p", { className: "bad", role: "alert" });
    this.plan = el("div", { className: "plan" });
    this.preview = el("button", { textContent: "Preview the plan", className: "primary" });
    this.confirm = el("button", { type: "button", textContent: "Carry it out", className: "primary", hidden: true });
    const cancel = el("button", { type: "button", textContent: "Cancel" });
    const fields = action.fields.map((field) => this.#field(field));
    const title = el("h2", { id: "wish-title", textContent: action.label });
    const about = el("p", { className: "note", textContent: action.about });
    this.node = el(
      "form",
      {},
      title,
      about,
      ...fields,
      this.error,
      this.plan,
      el("div", { className: "line end" }, cancel, this.preview, this.confirm),
    );
    this.node.addEventListener("submit", (event) => this.#preview(event));
    this.confirm.addEventListener("click", () => this.#carryOut());
    cancel.addEventListener("click", () => owner.close());
    this.#refill(this.store.selected?.kind === "broker" ? this.store.selected.key : null);
  }

  #field({ name, label, text, check }) {
    const control = text
      ? el("input", { placeholder: text, required: true, spellcheck: false })
      : check
        ? el("input", { type: "checkbox" })
        : el("select");
    control.name = name;
    control.addEventListener("input", () => this.#refill());
    this.#controls.set(name, control);
    const caption = el("span", { textContent: label });
    return el(
      "label",
      { className: check ? "field check" : "field" },
      ...(check ? [control, caption] : [caption, control]),
    );
  }

  // Each choice out of what the ones before it leave; a plan that was made for others is off.
  #refill(first = null) {
    const { neighbours } = this.store;
    const chosen = {};
    this.action.fields.forEach(({ name, options, check }, place) => {
      const control = this.#controls.get(name);
      if (options) {
        const around = (broker) => neighbours.get(broker) ?? [];
        const names = options({ brokers: [...neighbours.keys()], around, chosen });
        const wanted = place === 0 && first !== null ? first : control.value;
        control.replaceChildren(...names.map((text) => el("option", { value: text, textContent: text })));
        control.value = names.includes(wanted) ? wanted : (names[0] ?? "");
      }
      chosen[name] = check ? (control.checked ? "yes" : "no") : control.value.trim();
    });
    this.#propose(null);
    return chosen;
  }

  #propose(draft) {
    this.#draft = draft;
    this.confirm.hidden = !draft;
    this.preview.hidden = Boolean(draft);
    this.error.textContent = "";
    this.plan.replaceChildren(...(draft ? described(draft) : []));
    this.owner.onPreview(draft);
  }

  async #preview(event) {
    event.preventDefault();
    const wish = this.action.wish(this.#refill());
    if (!isFilled({ ...wish, detach_absent: true }))
      return this.#fail("there is no such choice in this tree: choose other brokers");
    try {
      this.#propose(await ask("plan", { do: this.name, ...wish }));
      this.confirm.focus();
    } catch (refusal) {
      this.#fail(refusal.message);
    }
  }

  async #carryOut() {
    this.confirm.disabled = true;
    try {
      await ask("apply", { draft: this.#draft.draft });
      this.owner.close();
      this.owner.onBegun();
    } catch (refusal) {
      this.#propose(null);
      this.#fail(refusal.message);
    }
    this.confirm.disabled = false;
  }

  #fail(text) {
    this.error.textContent = text;
  }
}

function described({ lines, links_removed, links_added, brokers_removed, brokers_added }) {
  const signs = [
    ...links_removed.map(([a, b]) => ["gone", `− link ${a} – ${b}`]),
    ...brokers_removed.map((name) => ["gone", `− broker ${name}`]),
    ...links_added.map(([a, b]) => ["new", `+ link ${a} – ${b}`]),
    ...brokers_added.map((name) => ["new", `+ broker ${name}`]),
  ];
  return [
    el("h3", { textContent: lines[0] }),
    el("ul", { className: "signs" }, ...signs.map(([kind, text]) => el("li", { className: kind, textContent: text }))),
    el("pre", { textContent: lines.slice(1).join("\n"), tabIndex: 0 }),
  ];
}
