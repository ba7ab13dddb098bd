// The world as it drew itself. A drawing of a user's may be anything, so only shapes pass.

const SHAPES = new Set([
  "svg",
  "g",
  "path",
  "rect",
  "circle",
  "ellipse",
  "line",
  "polyline",
  "polygon",
  "text",
  "tspan",
  "title",
  "desc",
  "defs",
  "linearGradient",
  "radialGradient",
  "stop",
  "pattern",
  "clipPath",
  "mask",
  "marker",
  "use",
  "symbol",
]);

function picture(shown) {
  if (!shown) return null;
  if (shown.mode === "rgb_array") return el("img", { alt: "the world", src: `data:image/png;base64,${shown.content}` });
  if (shown.mode !== "svg") return el("pre", {}, shown.content);
  const parsed = new DOMParser().parseFromString(shown.content, "image/svg+xml").documentElement;
  return parsed.localName === "svg" ? onlyShapes(parsed) : el("pre", {}, "this drawing is no SVG");
}

function onlyShapes(element) {
  for (const child of [...element.children]) SHAPES.has(child.localName) ? onlyShapes(child) : child.remove();
  for (const { name, value } of [...element.attributes]) {
    const leadsAway = /url\s*\(\s*["']?(?!#)/i.test(value) || (/href$/i.test(name) && !value.startsWith("#"));
    if (/^on/i.test(name) || leadsAway) element.removeAttribute(name);
  }
  return document.importNode(element, true);
}

// Where an action leads, in the drawing: elements with data-action="NUMBER".
function pointAt(action) {
  for (const element of document.querySelectorAll(".world [data-action]")) {
    element.classList.toggle("pointed", action !== null && element.dataset.action === String(action));
  }
}
