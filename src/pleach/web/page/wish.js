// A form for a request, and the plan that it makes, which is shown before anything is done.

import { ask } from "./ask.js";
import { el } from "./dom.js";
import { plural } from "./format.js";

const NAMES_OFFERED_MAX = 40;
const STAYS_SHOWN_MAX = 10;

export class WishForm {
  #draft = null;
  #version = 0; // of what is chosen: a plan that arrives late is not of what is there now
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
    this.#refill(this.#given());
  }

  // What is selected on the page goes into the first field, if it is one for such things.
  #given() {
    const { selected, picture } = this.store;
    const [{ name, options, suggest }] = this.action.fields;
    if (!selected || selected.kind === "link") return {};
    if (suggest) return selected.kind === "client" ? { [name]: selected.key } : {};
    const broker = selected.kind === "client" ? picture.clients[selected.key].broker : selected.key;
    return options ? { [name]: broker } : {};
  }

  #field(field) {
    const { name, label, check, suggest } = field;
    const control = controlOf(field);
    control.name = name;
    control.addEventListener("input", () => this.#refill());
    this.#controls.set(name, control);
    const caption = el("span", { textContent: label });
    const parts = check ? [control, caption] : [caption, control];
    if (suggest) parts.push(this.#suggestions(control, suggest));
    return el("label", { className: check ? "field check" : "field" }, ...parts);
  }

  // Names that go on with what was typed. Others may be typed, too: not every client is in the picture.
  #suggestions(control, suggest) {
    const list = el("datalist", { id: `wish-${control.name}` });
    control.setAttribute("list", list.id);
    const offer = () => {
      const typed = control.value.toLowerCase();
      const names = suggest(this.#choices({})).filter((name) => name.toLowerCase().includes(typed));
      list.replaceChildren(...names.slice(0, NAMES_OFFERED_MAX).map((value) => el("option", { value })));
    };
    control.addEventListener("input", offer);
    control.addEventListener("focus", offer);
    return list;
  }

  #choices(chosen) {
    const { neighbours, picture } = this.store;
    return {
      chosen,
      brokers: [...neighbours.keys()],
      clients: Object.keys(picture.clients).sort(),
      around: (broker) => neighbours.get(broker) ?? [],
      homeOf: (client) => (Object.hasOwn(picture.clients, client) ? picture.clients[client].broker : ""),
    };
  }

  // Each choice out of what the ones before it leave; a plan that was made for others is off.
  #refill(given = {}) {
    const chosen = {};
    for (const { name, options, any, check } of this.action.fields) {
      const control = this.#controls.get(name);
      if (name in given && !options) control.value = given[name];
      if (options) {
        const wanted = given[name] ?? control.value;
        const names = options(this.#choices(chosen));
        const offered = [...(any ? [["", any]] : []), ...names.map((text) => [text, text])];
        control.replaceChildren(...offered.map(([value, textContent]) => el("option", { value, textContent })));
        control.value = names.includes(wanted) ? wanted : (offered[0]?.[0] ?? "");
      }
      chosen[name] = check ? (control.checked ? "yes" : "no") : control.value.trim();
    }
    this.#version += 1;
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
    const chosen = this.#refill();
    if (this.action.fields.some(({ name, any }) => !any && !chosen[name]))
      return this.#fail("there is no such choice in this tree: choose other brokers");
    const version = this.#version;
    try {
      const draft = await ask("plan", { do: this.name, ...this.action.wish(chosen) });
      if (version !== this.#version || !this.node.isConnected) return;
      this.#propose(draft);
      this.confirm.focus();
    } catch (refusal) {
      if (version === this.#version) this.#fail(refusal.message);
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

function controlOf({ text, number, min, max, check }) {
  if (check) return el("input", { type: "checkbox" });
  if (text) return el("input", { placeholder: text, required: true, spellcheck: false, autocomplete: "off" });
  return number ? el("input", { type: "number", value: number, min, max, step: "any", required: true }) : el("select");
}

function described({ lines, links_removed, links_added, brokers_removed, brokers_added, arrivals, stays }) {
  const signs = [
    ...links_removed.map(([a, b]) => ["gone", `− link ${a} – ${b}`]),
    ...brokers_removed.map((name) => ["gone", `− broker ${name}`]),
    ...links_added.map(([a, b]) => ["new", `+ link ${a} – ${b}`]),
    ...brokers_added.map((name) => ["new", `+ broker ${name}`]),
    ...Object.entries(arrivals).map(([name, number]) => ["new", `→ ${name}: ${plural(number, "client")}`]),
    ...stays.slice(0, STAYS_SHOWN_MAX).map((name) => ["gone", `${name} stays`]),
  ];
  return [
    el("h3", { textContent: lines[0] }),
    el("ul", { className: "signs" }, ...signs.map(([kind, text]) => el("li", { className: kind, textContent: text }))),
    el("pre", { textContent: lines.slice(1).join("\n"), tabIndex: 0 }),
  ];
}
