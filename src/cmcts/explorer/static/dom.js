// Elements without a framework. Strings become text nodes, never markup: names from users are text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "tip") setTip(element, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const el = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

// One tooltip for the page: whatever has words for it shows them when it is pointed at or focused.
const tips = new WeakMap();

function setTip(element, words) {
  tips.set(element, words);
  element.setAttribute("aria-description", words);
}

function showTip(event) {
  const tip = document.getElementById("tip");
  let target = event.target instanceof Element ? event.target : null;
  while (target && !tips.has(target)) target = target.parentElement;
  tip.hidden = !target;
  if (!target) return;
  tip.textContent = tips.get(target);
  const box = target.getBoundingClientRect();
  const x = event.type === "mouseover" ? event.clientX : box.left;
  tip.style.left = `${Math.max(8, Math.min(x + 12, innerWidth - tip.offsetWidth - 8))}px`;
  const below = box.bottom + 8;
  const above = box.top - tip.offsetHeight - 8;
  tip.style.top = `${below + tip.offsetHeight < innerHeight || above < 0 ? below : above}px`;
}

for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, showTip);
document.addEventListener("focusout", () => {
  document.getElementById("tip").hidden = true;
});
document.addEventListener(
  "scroll",
  () => {
    document.getElementById("tip").hidden = true;
  },
  true,
);
