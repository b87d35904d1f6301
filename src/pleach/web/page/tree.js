// The tree on the stage: frames, pointers, keys. What a frame looks like is in scene.js.

import { Camera } from "./camera.js";
import { centre, laidOut } from "./layout.js";
import { Motion, prefersStill } from "./motion.js";
import { nodeSize, Scene, strandsOf } from "./scene.js";
import { linkKey } from "./store.js";

const NEAR_PX = 14; // how far from a broker or link a click still means it
const DRAG_PX = 4;
const MARGIN = 78;
const WHEEL = 0.0015;
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class TreeView {
  preview = null; // a plan that is looked at
  frames = 0; // drawn so far, for who measures
  isSettled = false; // whether everything is where it belongs
  #motion = new Motion();
  #camera = new Camera();
  #targets = new Map();
  #strands = null; // links as they are drawn; null: the picture has changed since
  #root = null;
  #spacing = 100;
  #seenShape = -1;
  #hovered = null;
  #pointers = new Map();
  #dragged = 0;
  #isDue = false;

  // onRead: somebody wants to read about what is selected; say: for who listens instead of looking
  constructor(canvas, store, palette, { onRead, say }) {
    this.canvas = canvas;
    this.store = store;
    this.palette = palette;
    this.onRead = onRead;
    this.say = say;
    this.scene = new Scene(canvas, palette);
    new ResizeObserver(() => {
      this.scene.resize();
      this.wake();
    }).observe(canvas);
    store.addEventListener("change", () => {
      this.#strands = null;
      this.wake();
    });
    store.addEventListener("select", () => this.wake());
    this.#listen();
    this.wake();
  }

  wake() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame((now) => this.#frame(now));
  }

  fit() {
    this.#camera.isFitted = true;
    this.wake();
  }

  zoom(factor, x, y) {
    this.#camera.zoom(factor, x, y);
    this.wake();
  }

  reveal(broker) {
    const place = this.#targets.get(broker);
    if (place) this.#camera.reveal(place, this.scene);
    this.wake();
  }

  // For tests and tools: where a broker is on the screen, from the canvas's corner.
  placeOf(broker) {
    const place = this.#motion.places.get(broker);
    return place ? this.#onScreen(place) : null;
  }

  #frame(now) {
    this.#isDue = false;
    this.frames += 1;
    this.#follow(now);
    this.#motion.advance(now);
    const still = prefersStill.matches;
    const { picture, guests, selected, wanted } = this.store;
    const places = this.#motion.places;
    const room = {
      width: this.scene.width,
      height: this.scene.height,
      margin: Math.min(MARGIN, this.scene.width / 8),
      still,
    };
    const glides = this.#camera.follow(this.#targets, room);
    this.#strands ??= strandsOf(picture.links);
    const view = {
      picture,
      strands: this.#strands,
      places,
      guests,
      selected,
      wanted,
      still,
      now,
      camera: this.#camera,
      hovered: this.#hovered,
      preview: this.preview,
      spacing: this.#spacing,
    };
    this.scene.draw(view);
    this.isSettled = !this.#motion.isMoving && !glides;
    if (!this.isSettled || (!still && flows(picture))) this.wake();
  }

  #follow(now) {
    const { store } = this;
    if (this.#seenShape === store.shapeVersion) return;
    this.#seenShape = store.shapeVersion;
    this.#root = centre(store.neighbours, this.#root);
    this.#targets = laidOut(store.neighbours, this.#motion.places, this.#root);
    this.#spacing = usualSpacing(this.#targets);
    this.palette.learn(store.picture.brokers);
    this.#motion.aim(this.#targets, now);
  }

  // Pointers ---------------------------------------------------------------------------------------------------

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.#press(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#release(event));
    canvas.addEventListener("pointercancel", (event) => this.#pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.#dragged = 0;
  }

  #move(event) {
    const last = this.#pointers.get(event.pointerId);
    if (!last) return this.#hover(this.#find(event.offsetX, event.offsetY));
    const [dx, dy] = [event.offsetX - last[0], event.offsetY - last[1]];
    this.#dragged += Math.hypot(dx, dy);
    if (this.#pointers.size === 2) this.#pinch(event, last);
    else if (this.#dragged > DRAG_PX) this.#camera.pan(dx, dy);
    this.#pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    return this.wake();
  }

  #pinch(event, last) {
    const [[, other]] = [...this.#pointers].filter(([id]) => id !== event.pointerId);
    const before = Math.hypot(last[0] - other[0], last[1] - other[1]);
    const now = Math.hypot(event.offsetX - other[0], event.offsetY - other[1]);
    if (before > 0) this.#camera.zoom(now / before, other[0] - this.scene.width / 2, other[1] - this.scene.height / 2);
  }

  #release(event) {
    this.#pointers.delete(event.pointerId);
    if (this.#dragged <= DRAG_PX) this.store.select(this.#find(event.offsetX, event.offsetY));
  }

  #wheel(event) {
    event.preventDefault();
    this.zoom(
      Math.exp(-event.deltaY * WHEEL),
      event.offsetX - this.scene.width / 2,
      event.offsetY - this.scene.height / 2,
    );
  }

  #hover(found) {
    if (found?.key === this.#hovered?.key) return;
    this.#hovered = found;
    this.canvas.style.cursor = found ? "pointer" : "grab";
    this.wake();
  }

  #find(x, y) {
    let [best, nearest] = [null, Math.max(NEAR_PX, nodeSize({ spacing: this.#spacing, camera: this.#camera }) + 4)];
    for (const [name, place] of this.#motion.places) {
      const [px, py] = this.#onScreen(place);
      const distance = Math.hypot(px - x, py - y);
      if (distance < nearest) [best, nearest] = [name, distance];
    }
    return best === null ? this.#findLink(x, y) : { kind: "broker", key: best };
  }

  #findLink(x, y) {
    for (const [key, { a, b }] of Object.entries(this.store.picture.links)) {
      const [from, to] = [this.#motion.places.get(a), this.#motion.places.get(b)];
      if (from && to && distanceTo(this.#onScreen(from), this.#onScreen(to), x, y) < NEAR_PX / 2)
        return { kind: "link", key };
    }
    return null;
  }

  #onScreen({ x, y }) {
    const { scene } = this;
    const { x: cx, y: cy, scale } = this.#camera;
    return [scene.width / 2 + (x - cx) * scale, scene.height / 2 + (y - cy) * scale];
  }

  // Keys -------------------------------------------------------------------------------------------------------

  #key(event) {
    const acts = {
      "+": () => this.zoom(1.25),
      "=": () => this.zoom(1.25),
      "-": () => this.zoom(0.8),
      0: () => this.fit(),
      Escape: () => this.store.select(null),
      Enter: () => this.onRead(),
    };
    const act = DIRECTIONS[event.key] ? () => this.#walk(DIRECTIONS[event.key]) : acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  // To the neighbour that lies most in a direction.
  #walk([dx, dy]) {
    const { store } = this;
    const here = store.selected?.kind === "broker" ? store.selected.key : null;
    if (here === null) return this.#go(this.#root);
    const from = this.#targets.get(here);
    let [best, most] = [null, 0.2];
    for (const name of store.neighbours.get(here)) {
      const to = this.#targets.get(name);
      if (!to) continue;
      const along = ((to.x - from.x) * dx + (to.y - from.y) * dy) / Math.hypot(to.x - from.x, to.y - from.y);
      if (along > most) [best, most] = [name, along];
    }
    return best === null ? this.say(`no link of ${here} in this direction`) : this.#go(best, here);
  }

  #go(name, from) {
    if (name === null) return;
    const { picture, neighbours, guests } = this.store;
    this.store.select({ kind: "broker", key: name });
    this.reveal(name);
    const link = from ? picture.links[linkKey(from, name)] : null;
    const state = picture.brokers[name].answers ? "" : ", does not answer";
    const down = link && !link.up ? ", the link is down" : "";
    this.say(`${name}${state}${down}, ${neighbours.get(name).length} links, ${guests.get(name)?.length ?? 0} clients`);
  }
}

const flows = (picture) =>
  Object.values(picture.links).some(({ there, back }) => there > 0 || back > 0) ||
  Object.values(picture.brokers).some(({ operation }) => operation);

// The usual distance of neighbours: the median, so that a few long links do not matter.
function usualSpacing(targets) {
  const lengths = [];
  for (const { x, y, parent } of targets.values()) {
    const up = targets.get(parent);
    if (up) lengths.push(Math.hypot(x - up.x, y - up.y));
  }
  lengths.sort((one, other) => one - other);
  return lengths.length ? lengths[lengths.length >> 1] : 100;
}

function distanceTo([x1, y1], [x2, y2], x, y) {
  const length = (x2 - x1) ** 2 + (y2 - y1) ** 2;
  const share = length ? Math.max(0, Math.min(1, ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length)) : 0;
  return Math.hypot(x1 + share * (x2 - x1) - x, y1 + share * (y2 - y1) - y);
}
