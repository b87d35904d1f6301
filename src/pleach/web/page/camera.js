// What part of the drawing is seen. Until somebody pans or zooms it shows all of it, however it grows.

const SCALE_MIN = 0.02;
const SCALE_MAX = 6;
const SCALE_FITTED_MAX = 1.5;
const FOLLOW = 0.12; // of the way to the wanted view, per frame

export class Camera {
  x = 0;
  y = 0;
  scale = 1;
  isFitted = true;
  #isPlaced = false;

  // Towards the view of all places; returns whether it still moves.
  follow(places, { width, height, margin, still }) {
    if (!this.isFitted || places.size === 0) return false;
    const wanted = fitted(places, width, height, margin);
    const share = still || !this.#isPlaced ? 1 : FOLLOW;
    this.#isPlaced = true;
    const moves =
      Math.abs(Math.log(wanted.scale / this.scale)) > 0.001 ||
      Math.hypot(wanted.x - this.x, wanted.y - this.y) * this.scale > 0.3;
    this.scale *= (wanted.scale / this.scale) ** share;
    this.x += (wanted.x - this.x) * share;
    this.y += (wanted.y - this.y) * share;
    return moves;
  }

  pan(dx, dy) {
    this.isFitted = false;
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
  }

  // `x`, `y`: the point of the screen, from its middle, that stays where it is.
  zoom(factor, x = 0, y = 0) {
    this.isFitted = false;
    const scale = Math.min(SCALE_MAX, Math.max(SCALE_MIN, this.scale * factor));
    this.x += x / this.scale - x / scale;
    this.y += y / this.scale - y / scale;
    this.scale = scale;
  }

  // Brings a place into view if it is not.
  reveal({ x, y }, { width, height }) {
    const dx = (x - this.x) * this.scale;
    const dy = (y - this.y) * this.scale;
    if (Math.abs(dx) < width / 2 - 40 && Math.abs(dy) < height / 2 - 40) return;
    this.isFitted = false;
    this.x = x;
    this.y = y;
  }
}

function fitted(places, width, height, margin) {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const { x, y } of places.values()) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  const room = { width: Math.max(50, width - 2 * margin), height: Math.max(50, height - 2 * margin) };
  const scale = Math.min(
    SCALE_FITTED_MAX,
    room.width / Math.max(1, right - left),
    room.height / Math.max(1, bottom - top),
  );
  return { x: (left + right) / 2, y: (top + bottom) / 2, scale };
}
