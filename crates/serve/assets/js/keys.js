// Keyboard navigation within a group (roving tabindex): Tab reaches one node, arrows, Home and End move from there.

/** Arrow keys move the focus among the nodes of `items()`. */
export function arrowKeys(box, items, { onMove = () => {}, vertical = true } = {}) {
  box.addEventListener("keydown", (event) => {
    const nodes = items();
    const index = nodes.indexOf(document.activeElement);
    if (index < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = target(event.key, index, nodes.length, vertical);
    if (next === null) return;
    event.preventDefault();
    rove(nodes, nodes[next]);
    nodes[next].focus();
    onMove(nodes[next], next);
  });
}

/** Makes one node the one in the tab order. */
export function rove(nodes, chosen) {
  nodes.forEach((node) => node.setAttribute("tabindex", node === chosen ? "0" : "-1"));
}

function target(key, index, length, vertical) {
  const moves = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: length - 1 };
  if (vertical) Object.assign(moves, { ArrowDown: index + 1, ArrowUp: index - 1 });
  if (!(key in moves)) return null;
  return (moves[key] + length) % length;
}
