/**
 * The few DOM helpers that every page uses. Text always goes in as text, never as HTML.
 */

/** The element with this id. @param {string} id @returns {any} */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * Make an element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `class`, `text`, `on<Event>` functions, or plain attributes;
 *   null and false are left out, true is an empty attribute
 * @param {...(Node|string|null)} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') element.textContent = value;
    else if (name.startsWith('on')) element.addEventListener(name.slice(2).toLowerCase(), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * Change text only when it differs: screen readers announce, and browsers paint, only changes.
 * @param {Element} element @param {string} value
 */
export function setText(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

/**
 * Say something to screen readers without showing it.
 * @param {string} sentence
 */
export function announce(sentence) {
  setText(byId('announcer'), sentence);
}
