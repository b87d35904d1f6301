// Brokers glide to their new places, and new ones grow out of their neighbours.

const GLIDE_MS = 700;

export const prefersStill = matchMedia("(prefers-reduced-motion: reduce)");

export class Motion {
  places = new Map(); // name → { x, y } now
  #from = new Map();
  #to = new Map();
  #beganAt = 0;

  get isMoving() {
    return this.#to.size > 0;
  }

  aim(targets, now) {
    const from = new Map();
    for (const [name, { parent }] of targets) {
      from.set(name, this.places.get(name) ?? this.places.get(parent) ?? targets.get(name));
    }
    this.#from = from;
    this.#to = targets;
    this.#beganAt = prefersStill.matches || this.places.size === 0 ? -Infinity : now;
    this.advance(now);
  }

  advance(now) {
    if (!this.isMoving) return;
    const share = Math.min(1, (now - this.#beganAt) / GLIDE_MS);
    const eased = share < 0.5 ? 2 * share * share : 1 - 2 * (1 - share) * (1 - share);
    const places = new Map();
    for (const [name, to] of this.#to) {
      const from = this.#from.get(name);
      places.set(name, { x: from.x + (to.x - from.x) * eased, y: from.y + (to.y - from.y) * eased });
    }
    this.places = places;
    if (share === 1) this.#to = new Map();
  }
}
