// Elements from data. Everything that is shown passes here as text: no name or filter is ever read as HTML.

export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// The children of `parent` become one per entry, in their order. Those that stay are kept, and with them the focus.
export function keyed(parent, entries, make, update) {
  const had = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const wanted = entries.map(([key, value]) => {
    const node = had.get(key) ?? make(key, value);
    node.dataset.key = key;
    update(node, value, key);
    had.delete(key);
    return node;
  });
  for (const gone of had.values()) gone.remove();
  wanted.forEach((node, place) => {
    if (parent.children[place] !== node) parent.insertBefore(node, parent.children[place] ?? null);
  });
}

export const byId = (id) => document.getElementById(id);
