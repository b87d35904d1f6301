// A JSON merge patch (RFC 7396) in place: null takes away, tables are patched, all else is replaced.
// Tables have no prototype: a broker may be called "__proto__".

const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

export const table = () => Object.create(null);

export function merge(target, patch) {
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete target[name];
    else if (isTable(value)) target[name] = merge(isTable(target[name]) ? target[name] : table(), value);
    else target[name] = value;
  }
  return target;
}
