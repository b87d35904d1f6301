// A recorded run as a film: frames of patches, of which any moment is put together again.

import { ask } from "./ask.js";
import { el } from "./dom.js";
import { moment } from "./format.js";
import { merge, table } from "./merge.js";

const KEY_FRAMES = 40; // between whole pictures that are kept, so that going back is quick
const PLAY_SECONDS = 30; // that a run takes at the usual pace

export class Film {
  #frames;
  #wholes = []; // every so many frames, as text: a picture is changed in place, a text is not

  constructor({ frames, from, to }) {
    this.#frames = frames;
    this.from = from;
    this.to = to;
    const picture = table();
    frames.forEach(({ patch }, place) => {
      merge(picture, patch);
      if (place % KEY_FRAMES === 0) this.#wholes.push(JSON.stringify(picture));
    });
  }

  indexAt(at) {
    let [low, high] = [0, this.#frames.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#frames[middle].at <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  pictureAt(index) {
    const whole = Math.floor(index / KEY_FRAMES);
    const picture = merge(table(), JSON.parse(this.#wholes[whole]));
    for (const { patch } of this.#frames.slice(whole * KEY_FRAMES + 1, index + 1)) merge(picture, patch);
    return picture;
  }

  get last() {
    return this.pictureAt(this.#frames.length - 1);
  }

  patchesBetween(index, next) {
    return this.#frames.slice(index + 1, next + 1).map(({ patch }) => patch);
  }
}

export class Replay {
  #film = null;
  #index = -1;
  #playedAt = null;

  // onLoad: a run, from, to, and all that ever happens in it
  constructor(bar, store, { onLoad, onFail }) {
    this.store = store;
    this.onLoad = onLoad;
    this.onFail = onFail;
    this.bar = bar;
    this.runs = el("select", { title: "Run" });
    this.runs.setAttribute("aria-label", "Run");
    this.button = el("button", { type: "button", textContent: "Play" });
    this.slider = el("input", { type: "range", min: 0, max: 1000, step: 1, value: 0 });
    this.slider.setAttribute("aria-label", "Moment of the run");
    this.time = el("output");
    bar.append(this.runs, this.button, this.time, this.slider);
    this.runs.addEventListener("input", () => this.load(this.runs.value));
    this.button.addEventListener("click", () => this.#toggle());
    this.slider.addEventListener("input", () => this.#slide());
    this.slider.addEventListener("keydown", (event) => {
      if (event.key === " ") this.#toggle();
    });
  }

  async open(names) {
    this.bar.hidden = false;
    this.runs.replaceChildren(...names.map((name) => el("option", { value: name, textContent: name })));
    this.runs.hidden = names.length < 2;
    await this.load(names[0]);
  }

  async load(run) {
    this.#pause();
    try {
      this.#film = new Film(await ask("film", { run }));
    } catch (refusal) {
      this.onFail(refusal.message);
      return;
    }
    this.#index = -1;
    this.onLoad({ ...this.#film.last, from: this.#film.from, to: this.#film.to });
    this.slider.value = 0;
    this.#slide();
  }

  #slide() {
    const { from, to } = this.#film;
    this.#seek(from + ((to - from) * this.slider.value) / this.slider.max);
  }

  // A moment that somebody has picked elsewhere.
  goTo(at) {
    const { from, to } = this.#film;
    this.slider.value = Math.ceil((this.slider.max * (at - from)) / (to - from || 1));
    this.#slide();
  }

  #seek(at) {
    const next = this.#film.indexAt(at);
    if (next > this.#index && this.#index >= 0)
      for (const patch of this.#film.patchesBetween(this.#index, next)) this.store.patch(patch);
    else if (next !== this.#index) this.store.whole(this.#film.pictureAt(next));
    this.#index = next;
    this.time.value = `${moment(at - this.#film.from)} of ${moment(this.#film.to - this.#film.from)}`;
    this.slider.setAttribute("aria-valuetext", this.time.value);
  }

  #toggle() {
    if (this.#playedAt !== null) return this.#pause();
    if (Number(this.slider.value) >= Number(this.slider.max)) this.slider.value = 0;
    this.button.textContent = "Pause";
    this.#playedAt = performance.now();
    requestAnimationFrame((now) => this.#play(now));
  }

  #pause() {
    this.#playedAt = null;
    this.button.textContent = "Play";
  }

  #play(now) {
    if (this.#playedAt === null) return;
    const moved = ((now - this.#playedAt) / 1000 / PLAY_SECONDS) * this.slider.max;
    if (moved >= 1) {
      this.#playedAt = now;
      this.slider.valueAsNumber += moved;
      this.#slide();
    }
    if (Number(this.slider.value) >= Number(this.slider.max)) this.#pause();
    else requestAnimationFrame((next) => this.#play(next));
  }
}
