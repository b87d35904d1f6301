// Puts the page together: a store, the views that show it, and the stream or film that fills it.

import { Actions } from "./actions.js";
import { logOut, way } from "./ask.js";
import { ChangesPanel } from "./changes.js";
import { ClientsPanel } from "./clients.js";
import { showCounters } from "./counters.js";
import { byId, el, keyed, setText } from "./dom.js";
import { Palette } from "./palette.js";
import { QueuesPanel } from "./queues.js";
import { Replay } from "./replay.js";
import { SelectionPanel } from "./selection.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";
import { Tabs } from "./tabs.js";
import { Timeline } from "./timeline.js";
import { TreeView } from "./tree.js";

const PANELS_MS = 250; // between renderings of text: nobody reads faster
const NAMES_OFFERED_MAX = 40;

const store = new Store();
const palette = new Palette(() => tree.wake());
const tree = new TreeView(byId("tree"), store, palette, {
  onRead: () => tabs.focus(),
  say: (text) => setText(byId("said"), text),
});
const panels = {
  selection: new SelectionPanel(byId("panel-selection"), store, {
    labelOf: (action) => actions.labelOf(action),
    onWish: (action) => actions.open(action),
  }),
  changes: new ChangesPanel(byId("panel-changes"), store),
  clients: new ClientsPanel(byId("panel-clients"), store),
  queues: new QueuesPanel(byId("panel-queues"), store),
};
const tabs = new Tabs(
  byId("tabs"),
  { selection: "Selection", changes: "Changes", clients: "Clients", queues: "Queues" },
  (name) => panels[name].render(),
);
const timeline = new Timeline(byId("timeline"), byId("axis"), store, (operation, at) => {
  if (operation) tabs.show("changes");
  if (isReplaying) replay.goTo(at);
});
const actions = new Actions(byId("actions"), byId("wish"), store, {
  onPreview: (plan) => {
    tree.preview = plan;
    if (plan) byId("tree").scrollIntoView({ block: "start" }); // on a phone it may be out of sight
    tree.wake();
  },
  onBegun: () => tabs.show("changes"),
});
const replay = new Replay(byId("replay"), store, {
  onLoad: (film) => (timeline.film = film),
  onFail: (text) => alarm(text),
});

function alarm(text) {
  setText(byId("alarm"), text);
  byId("alarm").hidden = !text;
}

// Text is rendered now and then, however often the picture changes.
let isRenderDue = false;
function render() {
  isRenderDue = false;
  const { picture } = store;
  showCounters(byId("counters"), picture);
  panels[tabs.current].render();
  timeline.render();
  actions.render();
  setText(byId("title"), picture.source.title);
  alarm(picture.source.trouble);
  keyed(
    byId("legend"),
    palette.zones.map((zone) => [zone, zone]),
    makeZone,
    (node, zone) => node.style.setProperty("--zone", palette.zone(zone)),
  );
}

function makeZone(zone) {
  return el("li", { textContent: zone });
}

store.addEventListener("change", () => {
  if (isRenderDue) return;
  isRenderDue = true;
  setTimeout(render, PANELS_MS);
});
store.addEventListener("select", () => {
  if (store.selected) tabs.show("selection");
});

// Finding ------------------------------------------------------------------------------------------------------

const find = byId("find");
find.addEventListener("input", () => {
  const names = [...Object.keys(store.picture.brokers), ...Object.keys(store.picture.clients)];
  const offered = names
    .filter((name) => name.toLowerCase().includes(find.value.toLowerCase()))
    .slice(0, NAMES_OFFERED_MAX);
  byId("names").replaceChildren(...offered.map((value) => el("option", { value })));
  if (find.value in store.picture.brokers || find.value in store.picture.clients) found(find.value);
});
find.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && byId("names").firstChild) found(byId("names").firstChild.value);
});

function found(name) {
  const kind = name in store.picture.brokers ? "broker" : "client";
  store.select({ kind, key: name });
  tree.reveal(kind === "broker" ? name : store.picture.clients[name].broker);
}

// Buttons and keys ---------------------------------------------------------------------------------------------

byId("zoom-in").addEventListener("click", () => tree.zoom(1.25));
byId("zoom-out").addEventListener("click", () => tree.zoom(0.8));
byId("fit").addEventListener("click", () => tree.fit());
byId("logout").hidden = way !== "session";
byId("logout").addEventListener("click", logOut);
byId("help-open").addEventListener("click", () => byId("help").showModal());
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea, dialog")) return;
  if (event.key === "/") {
    event.preventDefault();
    find.focus();
  }
  if (event.key === "?") byId("help").showModal();
});

// The picture --------------------------------------------------------------------------------------------------

function connection(state) {
  const word = state === "lost" ? "connection lost, trying again" : store.picture.source.kind || "connecting";
  setText(byId("connection"), word);
  byId("connection").dataset.state = state === "lost" ? "lost" : store.picture.source.kind;
}

let isReplaying = false;
new Stream("stream", {
  whole: (picture) => {
    if (isReplaying) return;
    store.whole(picture);
    connection("live");
    if (picture.source.kind === "replay") {
      isReplaying = true;
      replay.open(picture.source.runs);
    }
  },
  patch: (patch) => {
    if (!isReplaying) store.patch(patch);
  },
  state: connection,
});

window.pleach = { store, tree }; // for tests, and for who is curious
