// Creates elements. Text is inserted as text, never as markup, so nothing that a model writes can become a tag.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Attributes beginning with `on` are listeners; `style` is an object of properties. */
export function element(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function drawn(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** A paragraph of running text. */
export function paragraph(...children) {
  return element("p", {}, ...children);
}

/** Replaces the children of a node. */
export function replace(node, ...children) {
  node.replaceChildren(...present(children));
  return node;
}

/** Running text with subscripts (`_2`) and superscripts (`^2`). */
export function formula(text) {
  return text.split(/(_\w+|\^\w+)/).map((part) => {
    if (part.startsWith("_")) return element("sub", {}, part.slice(1));
    if (part.startsWith("^")) return element("sup", {}, part.slice(1));
    return part;
  });
}

/** An id that no other element has. */
export function freshId(stem) {
  count += 1;
  return `${stem}-${count}`;
}

let count = 0;

function present(children) {
  return children.flat(4).filter((child) => child !== null && child !== undefined && child !== false);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach(([key, own]) => node.style.setProperty(key, own));
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...present(children));
  return node;
}
