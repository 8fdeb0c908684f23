/**
 * The cart: items and units that this browser keeps until they are reserved.
 */
import { announce, el, setText } from './dom.js';
import { count } from './format.js';
import { onForeignChange, readEntry, removeEntry, writeEntry } from './storage.js';
import { text } from './strings.js';

const ENTRY = 'seckill.cart';
/** The most lines of an order. */
const LINES_MAX = 16;
/** The most units of an item without a limit. */
const UNITS_MAX = 99;
const listeners = new Set();

/** @returns {{item_id: number, quantity: number}[]} the lines, each of another item */
export function cartLines() {
  const lines = readEntry(ENTRY);
  const isCount = (number) => Number.isSafeInteger(number) && number > 0;
  const isLine = (line) => isCount(line?.item_id) && isCount(line.quantity);
  return Array.isArray(lines) ? lines.filter(isLine) : [];
}

/** @param {{item_id: number, quantity: number}[]} lines */
function setCart(lines) {
  if (lines.length > 0) writeEntry(ENTRY, lines);
  else removeEntry(ENTRY);
  tell();
}

/**
 * Put back what an attempt reserves, if the cart has less of it. What was added since stays.
 * @param {{item_id: number, quantity: number}[]} lines
 */
export function addMissing(lines) {
  for (const { item_id: id, quantity } of lines) if (unitsInCart(id) < quantity) setUnits(id, quantity);
}

/** Take out what is reserved now. What was added since stays. @param {{item_id: number, quantity: number}[]} lines */
export function takeOut(lines) {
  for (const { item_id: id, quantity } of lines) setUnits(id, Math.max(0, unitsInCart(id) - quantity));
}

/** Sets the units of an item that is in the cart or becomes its last line; 0 takes it out. */
export function setUnits(itemId, quantity) {
  const lines = cartLines();
  const at = lines.findIndex((line) => line.item_id === itemId);
  if (at < 0) lines.push({ item_id: itemId, quantity });
  else lines[at].quantity = quantity;
  setCart(lines.filter((line) => line.quantity > 0));
}

/** The units of an item in the cart. @param {number} itemId */
function unitsInCart(itemId) {
  return cartLines().find((line) => line.item_id === itemId)?.quantity ?? 0;
}

/** The most units of an item that a cart takes. @param {object} item */
export function unitsMax(item) {
  return Math.min(UNITS_MAX, item.per_buyer_limit > 0 ? item.per_buyer_limit : UNITS_MAX);
}

/** Be told when the cart changes, in this tab or another. @param {() => void} listener */
export function onCartChange(listener) {
  listeners.add(listener);
}

/**
 * The button that puts an item into the cart. Items that are drawn or have a waiting room are bought on their pages.
 * @param {() => object} item
 * @param {() => number} units how many one press adds
 * @param {() => boolean} [isOne] whether the item is the only one that its place stands for
 * @returns {{element: HTMLElement, draw: () => void}}
 */
export function cartButton(item, units, isOne = () => true) {
  const element = el('button', { class: 'button quiet to-cart', type: 'button', onClick: add });
  function add() {
    const { id, name } = item();
    const quantity = Math.min(unitsMax(item()), unitsInCart(id) + units());
    if (isFull() || quantity === unitsInCart(id)) return;
    setUnits(id, quantity);
    announce(text('cart.announceAdded', { name, count: count(quantity) }));
  }
  function isFull() {
    return unitsInCart(item().id) === 0 && cartLines().length >= LINES_MAX;
  }
  function draw() {
    const { id, name, waiting_room: hasRoom, mode } = item();
    const inCart = unitsInCart(id);
    element.hidden = hasRoom || mode === 'draw' || !isOne();
    setText(element, inCart > 0 ? text('cart.inCart', { count: inCart }) : text(isFull() ? 'cart.full' : 'cart.add'));
    element.setAttribute('aria-disabled', String(isFull() || inCart >= unitsMax(item())));
    element.setAttribute('aria-label', `${element.textContent}: ${name}`);
  }
  onCartChange(draw);
  return { element, draw };
}

function tell() {
  for (const listener of listeners) listener();
}

onForeignChange(ENTRY, tell);
