// Colours for the canvas come from the style sheet, so that light and dark are written down once.

// Okabe and Ito's colours, which people tell apart whatever colours they see; vermilion is kept for what is wrong.
const ZONES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a6fc0"];
const NAMES = ["paper", "surface", "ink", "muted", "line", "accent", "bad", "warn", "flow"];

export class Palette {
  #zones = [];

  constructor(onChange) {
    this.read();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.read();
      onChange();
    });
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    for (const name of NAMES) this[name] = style.getPropertyValue(`--${name}`).trim();
    this.font = style.getPropertyValue("--font").trim();
  }

  // Zones keep their colours while they are there, whoever comes first in the alphabet later.
  learn(brokers) {
    const found = new Set(
      Object.values(brokers)
        .map(({ zone }) => zone)
        .filter(Boolean),
    );
    this.#zones = [
      ...this.#zones.filter((zone) => found.has(zone)),
      ...[...found].sort().filter((zone) => !this.#zones.includes(zone)),
    ];
  }

  get zones() {
    return this.#zones;
  }

  zone(name) {
    const place = this.#zones.indexOf(name);
    return place < 0 ? this.accent : ZONES[place % ZONES.length];
  }
}
