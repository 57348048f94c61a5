// Creates and updates elements without markup: output of a container can never become a tag.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

// Sets a text only if it differs, to avoid needless drawing.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function tone(element, name) {
  if (element.dataset.tone !== name) element.dataset.tone = name;
}

export function byId(id) {
  return document.getElementById(id);
}
