// The picture as the server sends it. Connects again by itself, whatever ended the connection, and says how it stands.

const SILENCE_MS_MAX = 8000; // the server gives a sign of life every two seconds
const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 10000;

// A session ends with its token: then the page itself leads to the log-in, and the stream says nothing but no.
async function leaveIfLoggedOut() {
  try {
    const page = await fetch("./", { redirect: "manual" });
    if (page.type === "opaqueredirect") location.reload();
  } catch {
    // nobody answers: the stream tries again
  }
}

export class Stream {
  #source = null;
  #heardAt = 0;
  #retryMs = RETRY_MS_MIN;

  // handlers: whole(picture), patch(patch), state("live" | "lost")
  constructor(url, handlers) {
    this.url = url;
    this.handlers = handlers;
    this.#open();
    setInterval(() => this.#watch(), 1000);
  }

  #open() {
    const source = (this.#source = new EventSource(this.url));
    this.#heardAt = performance.now();
    const on = (kind, handle) =>
      source.addEventListener(kind, (event) => {
        this.#heardAt = performance.now();
        this.#retryMs = RETRY_MS_MIN;
        this.handlers.state("live");
        handle(event);
      });
    on("whole", (event) => this.handlers.whole(JSON.parse(event.data)));
    on("patch", (event) => this.handlers.patch(JSON.parse(event.data)));
    on("pulse", () => {});
    source.addEventListener("error", () => this.#lost());
  }

  // A browser gives up after some errors, and waits for ever on a connection that is dead: so we do it ourselves.
  #lost() {
    if (this.#source === null) return;
    this.#source.close();
    this.#source = null;
    this.handlers.state("lost");
    leaveIfLoggedOut();
    setTimeout(() => this.#open(), this.#retryMs);
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MS_MAX);
  }

  #watch() {
    if (performance.now() - this.#heardAt > SILENCE_MS_MAX) this.#lost();
  }
}
