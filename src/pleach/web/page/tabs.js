// Tabs as the ARIA pattern has them: one of them is in the order of Tab, the arrows go to the others.

import { byId, el } from "./dom.js";

export class Tabs {
  constructor(list, names, onShow) {
    this.names = Object.keys(names);
    this.onShow = onShow;
    this.current = this.names[0];
    this.buttons = new Map(
      Object.entries(names).map(([name, text]) => {
        const button = el("button", { type: "button", role: "tab", id: `tab-${name}`, textContent: text });
        button.setAttribute("aria-controls", `panel-${name}`);
        button.addEventListener("click", () => this.show(name));
        byId(`panel-${name}`).setAttribute("aria-labelledby", `tab-${name}`);
        return [name, button];
      }),
    );
    list.append(...this.buttons.values());
    list.addEventListener("keydown", (event) => this.#key(event));
    this.show(this.current);
  }

  show(current) {
    this.current = current;
    for (const [name, button] of this.buttons) {
      const isCurrent = name === current;
      button.setAttribute("aria-selected", String(isCurrent));
      button.tabIndex = isCurrent ? 0 : -1;
      byId(`panel-${name}`).hidden = !isCurrent;
    }
    this.onShow(current);
  }

  focus() {
    byId(`panel-${this.current}`).focus();
  }

  #key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (this.names.indexOf(this.current) + step + this.names.length) % this.names.length;
    this.show(this.names[next]);
    this.buttons.get(this.current).focus();
  }
}
