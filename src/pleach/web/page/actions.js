// Buttons that change the tree, and where clients are. Each is a small form (wish.js), whose plan is shown, in words
// and drawn, before anything is done. Another action is another entry of ACTIONS, and a request in forms.py.

import { el } from "./dom.js";
import { WishForm } from "./wish.js";

const RATE = 10; // clients a second, unless somebody says otherwise

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
  drain: {
    label: "Drain a broker",
    about: "All its clients go to other brokers, in turn, while events flow. The broker stays in the tree.",
    fields: [
      { name: "broker", label: "clients of", options: ({ brokers }) => brokers },
      {
        name: "to",
        label: "go to",
        any: "its neighbours",
        options: ({ brokers, chosen }) => brokers.filter((name) => name !== chosen.broker),
      },
      { name: "rate", label: "per second", number: RATE, min: 0.1, max: 1000 },
    ],
    wish: ({ broker, to, rate }) => ({ broker, to: to ? [to] : [], rate: Number(rate) }),
  },
  move: {
    label: "Move a client",
    about: "From the broker where it is to another one, as a transaction: all of it, or nothing.",
    fields: [
      { name: "client", label: "client", text: "its name", suggest: ({ clients }) => clients },
      {
        name: "to",
        label: "goes to",
        options: ({ brokers, homeOf, chosen }) => brokers.filter((name) => name !== homeOf(chosen.client)),
      },
    ],
    wish: ({ client, to }) => ({ client, to }),
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
      button.addEventListener("click", () => this.open(name));
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

  open(name) {
    const form = new WishForm(name, ACTIONS[name], this.store, this);
    this.dialog.replaceChildren(form.node);
    this.dialog.showModal();
  }

  close() {
    this.dialog.close();
  }

  labelOf(name) {
    return ACTIONS[name].label;
  }
}
