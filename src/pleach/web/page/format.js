// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const count = (number) => whole.format(number);

export const plural = (number, thing) => `${count(number)} ${thing}${number === 1 ? "" : "s"}`;

export function short(number) {
  if (number < 1000) return String(Math.round(number));
  const [value, unit] = number < 1e6 ? [number / 1e3, "k"] : number < 1e9 ? [number / 1e6, "M"] : [number / 1e9, "G"];
  return `${value < 10 ? value.toFixed(1) : Math.round(value)}${unit}`;
}

export const bytes = (number) => `${short(number).replace(/(\D?)$/, " $1B")}`;

export function duration(seconds) {
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  return seconds < 60
    ? `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`
    : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

// Live times are seconds since 1970; those of a replay begin where the run did.
export const moment = (at) => (at > 1e8 ? clock.format(new Date(at * 1000)) : `${at.toFixed(2)} s`);
