// Elements and numbers that all views share. Texts are only set as textContent, never as HTML.

const BARS = 20;            // shown at most
const SVG = "http://www.w3.org/2000/svg";

export const get = id => document.getElementById(id);

// An element; properties are set as such, and what is no property of the element as an attribute.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const round = number => String(Number(number.toPrecision(4)));

export const count = number => number.toLocaleString("en");

export function percent(share) {
  if (share > 0 && share < 0.001) return "<\u00a00.1\u00a0%";
  const digits = share < 0.1 || share > 0.99 && share < 1 ? 1 : 0;
  return (100 * share).toFixed(digits) + "\u00a0%";
}

// A number with its sign; one that is too small for the digits is said to be so.
export function signed(weight) {
  if (weight === 0) return "0";
  const sign = weight < 0 ? "\u2212" : "+";
  return sign + (Math.abs(weight) < 0.00005 ? "<\u00a00.0001" : Math.abs(weight).toFixed(4));
}

// The text of a piece: its mark \u2581 begins a word; what continues a word begins with a hyphen.
export function nameOf(piece, place) {
  if (piece.startsWith("\u2581")) return piece.slice(1) || "\u2423";
  return place && /^[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}]/u.test(piece)
    ? "\u2011" + piece : piece;
}

export const headline = (what, more = "") => make("p", { className: "headline", dir: "auto" },
  make("strong", { textContent: what }), " ", more);

export const hint = text => make("p", { className: "hint", textContent: text });

// Bars for rows of [name, probability, whether it is chosen], most probable first. A bar is as long
// as its probability.
export function bars(rows) {
  const sorted = [...rows].sort((a, b) => b[1] - a[1]).slice(0, BARS);
  return make("div", { className: "bars" }, ...sorted.flatMap(([what, probability, chosen]) => {
    const inner = make("div");
    inner.style.width = 100 * probability + "%";
    return [
      make("span", { className: chosen ? "chosen" : "", dir: "auto" }, what),
      make("span", { textContent: percent(probability) }),
      make("div", { className: "bar", ariaHidden: "true" }, inner),
    ];
  }));
}

// One stop of the Tab key for a group of elements; arrow keys go from one to the next.
export function roving(group, items) {
  items.forEach((item, at) => { item.tabIndex = at ? -1 : 0; });
  const go = item => {
    for (const other of items) other.tabIndex = other === item ? 0 : -1;
  };
  group.addEventListener("focusin", event => items.includes(event.target) && go(event.target));
  group.addEventListener("keydown", event => {
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const next = items[items.indexOf(event.target) + move];
    if (!next || event.altKey) return;
    event.preventDefault();
    next.focus();
  });
}

export async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {                 // not allowed without HTTPS
    const field = make("textarea", { value: text, ariaLabel: "to copy" });
    button.after(field);
    field.select();
    return;
  }
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}
