// One frame of the tree on a canvas, in a few milliseconds for a thousand brokers, without a graphics card:
// a path of a thousand lines takes four times as long as a thousand paths of one; hairlines and squares take least.

import { duration } from "./format.js";

const WIDTHS = [1, 1.8, 3, 4.5, 6.5]; // of links, by traffic
const DOT_SPACE = 2; // seconds that a dot takes along a link
const LABELS_MAX = 140; // names on the screen at once
const LABEL_SCALE_MIN = 26; // pixels between neighbours below which names would overlap
const QUEUE_MIN = 10; // messages; fewer are just under way
const QUEUES_CROWDED_MAX = 6; // queues that have a number where there is little room: the longest
const ROUND_MIN = 3.5; // pixels: smaller brokers are squares, which nobody can tell, and their links are hairlines
const SPECK_PX = 2; // of a dot where there is little room
const LINE_PX = 14; // of text
const TAU = 2 * Math.PI;
// Where clients are drawn around a broker, in degrees: above and below, where its name may be, last. No more are drawn.
const SEATS = [29, 151, 331, 209, 0, 180, 53, 127, 307, 233, 90, 270].map((degrees) => (degrees * TAU) / 360);

// By decades: 100 bytes/s is thin, 100 kB/s is wide.
export function widthClass(rate) {
  return rate <= 0 ? 0 : Math.max(1, Math.min(WIDTHS.length - 1, Math.round(Math.log10(rate) - 1.5)));
}

export class Scene {
  constructor(canvas, palette) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false }); // nothing shines through, so nothing has to be mixed
    this.palette = palette;
    this.resize();
  }

  resize() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const { clientWidth, clientHeight } = this.canvas;
    this.width = clientWidth;
    this.height = clientHeight;
    this.canvas.width = Math.max(1, Math.round(clientWidth * ratio));
    this.canvas.height = Math.max(1, Math.round(clientHeight * ratio));
    this.ratio = ratio;
  }

  // view: { picture, strands, places, camera, guests, selected, hovered, wanted, preview, spacing, now, still }
  draw(view) {
    const { context: c, ratio } = this;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = this.palette.paper;
    c.fillRect(0, 0, this.width, this.height);
    const at = this.#projection(view);
    const size = nodeSize(view);
    const lines = lineUp(view.strands, at);
    this.#links(lines, view, size);
    if (!view.still) this.#dots(lines, view.now, size);
    this.#preview(view, at);
    if (size >= 6) this.#guests(view, at, size);
    this.#brokers(view, at, size);
    this.#names(view, at, size, lines);
    this.#queues(lines, view, size);
  }

  #projection({ places, camera }) {
    const on = new Map();
    for (const [name, { x, y }] of places) {
      on.set(name, [this.width / 2 + (x - camera.x) * camera.scale, this.height / 2 + (y - camera.y) * camera.scale]);
    }
    return on;
  }

  #links(lines, { selected }, size) {
    const { context: c, palette } = this;
    const classes = WIDTHS.map(() => []);
    const down = [];
    for (const line of lines) (line.link.up ? classes[line.width] : down).push(line);
    const widest = size > ROUND_MIN ? WIDTHS.at(-1) : 1;
    classes.forEach((alike, width) =>
      this.#stroke(alike, width ? palette.flow : palette.line, Math.min(WIDTHS[width], widest)),
    );
    c.setLineDash([5, 6]);
    this.#stroke(down, palette.bad, 2);
    c.setLineDash([]);
    if (selected?.kind === "link")
      this.#stroke(
        lines.filter((line) => line.key === selected.key),
        palette.accent,
        5,
      );
  }

  #stroke(lines, colour, width) {
    const { context: c } = this;
    c.strokeStyle = colour;
    c.lineWidth = width;
    for (const { from, to } of lines) {
      c.beginPath();
      c.moveTo(from[0], from[1]);
      c.lineTo(to[0], to[1]);
      c.stroke();
    }
  }

  // One dot per direction that carries something, running the way it goes; busy links are quicker. Where there is
  // little room, one for the busier direction, on whole pixels, which are filled and need not be blended.
  #dots(lines, now, size) {
    const { context: c, palette } = this;
    c.fillStyle = palette.ink;
    const isCrowded = size <= ROUND_MIN;
    lines.forEach((line, place) => {
      const { link, from, to } = line;
      if (!link.up) return;
      if (isCrowded) {
        if (line.width) speck(c, line, now, place);
        return;
      }
      if (link.there > 0) dot(c, from, to, now, place, link.there, size);
      if (link.back > 0) dot(c, to, from, now, place + 0.37, link.back, size);
    });
  }

  #preview({ preview }, at) {
    if (!preview) return;
    const { context: c, palette } = this;
    const drawn = (links) =>
      links.filter(([a, b]) => at.has(a) && at.has(b)).map(([a, b]) => ({ from: at.get(a), to: at.get(b) }));
    this.#stroke(drawn(preview.links_removed), palette.bad, 4);
    c.setLineDash([10, 7]);
    c.beginPath();
    for (const { from, to } of drawn(preview.links_added)) bow(c, from, to);
    c.strokeStyle = palette.accent;
    c.lineWidth = 4;
    c.stroke();
    this.#stroke(drawn(preview.paths.flatMap(hops)), palette.accent, 4);
    c.setLineDash([]);
  }

  #guests({ picture, guests, wanted }, at, size) {
    const { context: c, palette } = this;
    const [up, down, found] = [new Path2D(), new Path2D(), new Path2D()];
    for (const [broker, names] of guests) {
      const place = at.get(broker);
      if (!place || !this.#isSeen(place)) continue;
      names.slice(0, SEATS.length).forEach((name, number) => {
        const angle = SEATS[number];
        const [x, y] = [place[0] + (size + 8) * Math.cos(angle), place[1] + (size + 8) * Math.sin(angle)];
        const path = wanted?.has(name) ? found : picture.clients[name].up ? up : down;
        path.moveTo(x + 3, y);
        path.arc(x, y, wanted?.has(name) ? 4.5 : 3, 0, TAU);
      });
    }
    c.fillStyle = palette.muted;
    c.fill(up);
    c.strokeStyle = palette.muted;
    c.lineWidth = 1.2;
    c.stroke(down);
    c.fillStyle = palette.accent;
    c.fill(found);
  }

  #brokers({ picture, selected, hovered, preview, now, still }, at, size) {
    const { context: c, palette } = this;
    const [busy, silent, unready, bound] = [new Path2D(), new Path2D(), new Path2D(), new Path2D()];
    for (const [name, place] of at) {
      const broker = picture.brokers[name];
      if (!broker || !this.#isSeen(place)) continue;
      const [x, y] = place;
      if (!broker.answers) cross(silent, x, y, size);
      else {
        this.#broker(x, y, size, palette.zone(broker.zone));
        if (broker.trouble) circle(unready, x, y, size + 2);
      }
      if (broker.operation) circle(busy, x, y, size + 4 + (still ? 0 : 2 * Math.sin(now / 160)));
    }
    for (const name of Object.keys(preview?.arrivals ?? {}))
      if (at.has(name)) circle(bound, ...at.get(name), size + 6);
    for (const [path, colour, width] of [
      [bound, palette.accent, 3],
      [busy, palette.warn, 3],
      [unready, palette.bad, 2],
      [silent, palette.bad, 3],
    ]) {
      c.strokeStyle = colour;
      c.lineWidth = width;
      c.stroke(path);
    }
    for (const [which, width] of [
      [hovered, 1.5],
      [selected, 3],
    ]) {
      const place = which && at.get(which.kind === "client" ? picture.clients[which.key]?.broker : which.key);
      if (!place) continue;
      const path = new Path2D();
      circle(path, place[0], place[1], size + 5);
      c.strokeStyle = palette.ink;
      c.lineWidth = width;
      c.stroke(path);
    }
  }

  #broker(x, y, size, colour) {
    const { context: c, palette } = this;
    c.fillStyle = colour;
    if (size <= ROUND_MIN) {
      c.fillRect(Math.round(x - size), Math.round(y - size), Math.round(2 * size), Math.round(2 * size));
      return;
    }
    c.strokeStyle = palette.paper; // a rim, so that links end a little before it
    c.lineWidth = 2;
    c.beginPath();
    c.arc(x, y, size, 0, TAU);
    c.fill();
    c.stroke();
  }

  // Names where there is room, and always of what is selected or does not answer.
  #names({ picture, selected, hovered, spacing, camera }, at, size, lines) {
    const { context: c, palette } = this;
    const roomy = spacing * camera.scale > LABEL_SCALE_MIN;
    c.font = `600 ${size > 9 ? 13 : 11}px ${palette.font}`;
    c.textAlign = "center";
    c.lineJoin = "round";
    const crossed = roomy ? crossings(lines) : new Set();
    let left = LABELS_MAX;
    for (const [name, place] of at) {
      const broker = picture.brokers[name];
      if (!broker || !this.#isSeen(place)) continue;
      const matters = name === selected?.key || name === hovered?.key || !broker.answers;
      if (!matters && (!roomy || left <= 0)) continue;
      left -= 1;
      const below = crossed.has(`${name} above`) && !crossed.has(`${name} below`);
      const y = below ? place[1] + size + 16 : place[1] - size - 7;
      this.#label(
        name.length > 24 ? `${name.slice(0, 23)}…` : name,
        place[0],
        y,
        broker.answers ? palette.ink : palette.bad,
      );
    }
  }

  #queues(lines, { spacing, camera }, size) {
    const { context: c, palette } = this;
    const roomy = spacing * camera.scale > 2 * LABEL_SCALE_MIN;
    c.font = `${size > 9 ? 12 : 11}px ${palette.font}`;
    const waiting = lines
      .filter(({ link }) => queuedOn(link) >= QUEUE_MIN)
      .sort((one, other) => queuedOn(other.link) - queuedOn(one.link));
    const numbered = new Set(roomy ? waiting : waiting.slice(0, QUEUES_CROWDED_MAX));
    for (const line of roomy ? lines : numbered) {
      const { link } = line;
      const texts = [];
      if (roomy && link.up && link.round_trip !== undefined) texts.push([duration(link.round_trip), palette.muted]);
      if (numbered.has(line)) texts.push([`${queuedOn(link)} queued`, palette.warn]);
      if (texts.length) this.#beside(line, texts);
    }
  }

  // Lines of text that just touch the middle of a link, whichever way it goes.
  #beside({ from, to }, texts) {
    const middle = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2];
    if (!this.#isSeen(middle)) return;
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
    const [nx, ny] = [
      Math.abs(to[1] - from[1]) / length,
      ((to[0] - from[0]) * Math.sign(to[1] - from[1] || 1)) / -length,
    ];
    const wide = Math.max(...texts.map(([text]) => this.context.measureText(text).width)) / 2;
    const away = nx * wide + Math.abs(ny) * (LINE_PX / 2) * texts.length + 6;
    const top = middle[1] + ny * away - (LINE_PX * (texts.length - 1)) / 2 + 4;
    texts.forEach(([text, colour], place) => this.#label(text, middle[0] + nx * away, top + place * LINE_PX, colour));
  }

  #label(text, x, y, colour) {
    const { context: c, palette } = this;
    c.strokeStyle = palette.paper;
    c.lineWidth = 4;
    c.strokeText(text, x, y);
    c.fillStyle = colour;
    c.fillText(text, x, y);
  }

  #isSeen([x, y]) {
    return x > -30 && y > -30 && x < this.width + 30 && y < this.height + 30;
  }
}

export function nodeSize({ spacing, camera }) {
  return Math.max(2.2, Math.min(13, spacing * camera.scale * 0.16));
}

// Links as they are drawn; made anew when the picture changes, and put in their places in each frame.
export function strandsOf(links) {
  return Object.entries(links).map(([key, link]) => ({
    key,
    link,
    width: widthClass(link.there + link.back),
    from: null,
    to: null,
  }));
}

function lineUp(strands, at) {
  for (const strand of strands) {
    strand.from = at.get(strand.link.a);
    strand.to = at.get(strand.link.b);
  }
  return strands.filter(({ from, to }) => from && to);
}

// Brokers with a link that leaves them steeply, where a name above or below would be crossed by it.
function crossings(lines) {
  const crossed = new Set();
  for (const { link, from, to } of lines) {
    const steep = (to[1] - from[1]) / (Math.hypot(to[0] - from[0], to[1] - from[1]) || 1);
    if (Math.abs(steep) < 0.6) continue;
    crossed.add(`${link.a} ${steep < 0 ? "above" : "below"}`);
    crossed.add(`${link.b} ${steep < 0 ? "below" : "above"}`);
  }
  return crossed;
}

const share = (now, phase, width) => ((now * (0.5 + 0.25 * width)) / (DOT_SPACE * 1000) + phase * 0.618) % 1;

function dot(context, from, to, now, phase, rate, room) {
  const width = widthClass(rate);
  const along = share(now, phase, width);
  const size = Math.min(room / 2, 2) + (room > 6 ? 0.8 * width : 0);
  context.fillRect(
    from[0] + (to[0] - from[0]) * along - size / 2,
    from[1] + (to[1] - from[1]) * along - size / 2,
    size,
    size,
  );
}

function speck(context, { link, from, to, width }, now, phase) {
  const gone = share(now, phase, width);
  const along = link.there < link.back ? 1 - gone : gone;
  context.fillRect(
    Math.round(from[0] + (to[0] - from[0]) * along),
    Math.round(from[1] + (to[1] - from[1]) * along),
    SPECK_PX,
    SPECK_PX,
  );
}

const hops = (path) => path.slice(1).map((name, place) => [path[place], name]);

const queuedOn = (link) => link.queued_there + link.queued_back;

function circle(path, x, y, radius) {
  path.moveTo(x + radius, y);
  path.arc(x, y, radius, 0, TAU);
}

// A bend, so that a link to come is seen beside those that lie on its way.
function bow(context, [x1, y1], [x2, y2]) {
  context.moveTo(x1, y1);
  context.quadraticCurveTo((x1 + x2) / 2 - (y2 - y1) * 0.2, (y1 + y2) / 2 + (x2 - x1) * 0.2, x2, y2);
}

function cross(path, x, y, size) {
  const arm = Math.max(4, size * 0.8);
  path.moveTo(x - arm, y - arm);
  path.lineTo(x + arm, y + arm);
  path.moveTo(x + arm, y - arm);
  path.lineTo(x - arm, y + arm);
}
