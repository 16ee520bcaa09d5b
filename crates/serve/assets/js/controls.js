// Labelled controls: radio buttons, a list, a slider, a checkbox. Each returns `{ node, value }` and calls `onChange`.

import { element, freshId, replace } from "./dom.js";
import { arrowKeys, rove } from "./keys.js";

/** Radio buttons. Options are `[value, text]`. */
export function choice(label, options, chosen, onChange) {
  const box = element("div", { class: "choice wraps", role: "radiogroup", "aria-label": label });
  const self = { value: chosen, node: labelled(label, box), options: setOptions, choose };
  function setOptions(found, own) {
    self.value = own;
    const buttons = found.map(([value, text]) =>
      element(
        "button",
        { type: "button", role: "radio", "data-value": value, onclick: () => choose(value, true) },
        text,
      ),
    );
    replace(box, buttons);
    mark();
  }
  function choose(value, notifies) {
    const isNew = value !== self.value;
    self.value = value;
    mark();
    if (notifies && isNew) onChange(value);
  }
  function mark() {
    const buttons = [...box.children];
    buttons.forEach((button) =>
      button.setAttribute("aria-checked", String(button.dataset.value === String(self.value))),
    );
    rove(buttons, buttons.find((button) => button.getAttribute("aria-checked") === "true") ?? buttons[0]);
  }
  arrowKeys(box, () => [...box.children], { onMove: (button) => button.click() });
  setOptions(options, chosen);
  return self;
}

/** A drop-down list. */
export function list(label, options, chosen, onChange) {
  const id = freshId("list");
  const select = element("select", { id });
  const self = { value: chosen, node: labelled(label, select, id), options: setOptions, set };
  function setOptions(found, own) {
    replace(
      select,
      found.map(([value, text]) => element("option", { value }, text)),
    );
    self.value = own;
    select.value = own;
  }
  function set(own) {
    self.value = own;
    select.value = own;
  }
  select.addEventListener("change", () => {
    self.value = select.value;
    onChange(select.value);
  });
  setOptions(options, chosen);
  return self;
}

/** A slider; `show` formats its number. */
export function slider(label, { min, max, step = 1, value, show = String }, onChange) {
  const id = freshId("slider");
  const output = element("output", { for: id }, show(value));
  const input = element("input", { id, type: "range", min, max, step, value });
  const self = { value, node: labelled(label, element("div", { class: "slider" }, input, output), id), set };
  function set(number) {
    self.value = number;
    input.value = number;
    output.textContent = show(number);
  }
  input.addEventListener("input", () => {
    set(Number(input.value));
    onChange(self.value);
  });
  return self;
}

/** A checkbox. */
export function checkbox(label, value, onChange) {
  const input = element("input", { type: "checkbox" });
  input.checked = value;
  const self = { value, node: element("label", { class: "control inline" }, input, element("span", {}, label)), set };
  function set(own) {
    self.value = own;
    input.checked = own;
  }
  input.addEventListener("change", () => {
    self.value = input.checked;
    onChange(self.value);
  });
  return self;
}

function labelled(text, control, id) {
  const label = id ? element("label", { for: id }, text) : element("span", { "aria-hidden": "true" }, text);
  return element("div", { class: "control" }, label, control);
}
