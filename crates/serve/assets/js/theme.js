// Light or dark theme: the system's, until the switch changes it. The choice is stored where that is allowed.

import { element } from "./dom.js";
import { isDark } from "./colour.js";

const KEY = "polyhead-theme";

/** The switch; calls `changed` when the colours change. */
export function themeSwitch(changed) {
  const root = document.documentElement;
  const chosen = remembered();
  if (chosen) root.dataset.theme = chosen;
  const button = element("button", { class: "theme", type: "button" });
  const show = () => {
    button.textContent = isDark() ? "☾" : "☀";
    button.setAttribute("aria-label", `Theme: ${isDark() ? "dark" : "light"}. Switch`);
    changed();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
  return button;
}

function remembered() {
  try {
    return ["light", "dark"].find((name) => name === localStorage.getItem(KEY));
  } catch {
    return undefined;
  }
}

function remember(name) {
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // Without storage the choice is not remembered.
  }
}
