/**
 * The cart: change its lines, then reserve all or none. The order's page shows the hold.
 */
import { get } from '../api.js';
import { createReservation } from '../buy.js';
import { addMissing, cartLines, onCartChange, setUnits, takeOut, unitsMax } from '../cart.js';
import { everySecond } from '../clock.js';
import { announce, byId, el, setText } from '../dom.js';
import { count, money } from '../format.js';
import { startFrame } from '../frame.js';
import { outcomePanel } from '../outcome.js';
import { picture } from '../picture.js';
import { shownOf } from '../product.js';
import { countdownText, mergeFacts, nextMoment, stateChip, stateOf } from '../sale.js';
import { currentSession, onSessionChange, signInAddress } from '../session.js';
import { explain, text } from '../strings.js';

const POLL_MS = 3_000;

/** @type {Map<number, {element: HTMLElement, draw: (line: object) => void, refuse: (reason: string) => void}>} */
const rows = new Map();
/** Items by id. @type {Map<number, object>} */
const items = new Map();
/** @type {ReturnType<typeof createReservation> | null} */
let reservation = null;
/** Whose reservation it is; undefined at first. @type {number | null | undefined} */
let buyerId;
let phase = 'idle';
/** The item of the line that was refused. */
let refusedId = 0;
/** The server asked not to be asked before this moment, by `performance.now()`. */
let notBeforeMs = 0;
const panel = outcomePanel(byId('outcome'), { item: () => items.get(refusedId) ?? {}, again: reserve, named: true });

startFrame('title.cart');
startReservation();
onSessionChange(startReservation);
onCartChange(onChange);
byId('reserve').addEventListener('click', reserve);
addEventListener('online', () => reservation?.hurry());
everySecond(draw);
keepRefreshing();
if (location.hash === '#reserve') byId('reserve').focus();

async function keepRefreshing() {
  if (!document.hidden) await refresh();
  setTimeout(keepRefreshing, POLL_MS);
}

/** One request for all that is on sale; what is not listed is asked for by itself. */
async function refresh() {
  try {
    const listed = (await get('/api/items')).items;
    const missing = cartLines().filter((line) => listed.every((item) => item.id !== line.item_id));
    const others = await Promise.all(missing.map(({ item_id: id }) => get(`/api/items/${id}`).catch(gone(id))));
    for (const item of [...listed, ...others]) {
      const known = items.get(item.id);
      if (known === undefined) items.set(item.id, item);
      else mergeFacts(known, item);
    }
    byId('failed').hidden = true;
  } catch (error) {
    if (error.status === undefined) throw error;
    byId('failed').hidden = false;
  }
  draw();
}

/** An item that does not exist any more. */
function gone(id) {
  return (error) => {
    if (error.status !== 404) throw error;
    const past = new Date(0).toISOString();
    const name = text('order.itemFallback', { id });
    const times = { starts_at: past, ends_at: past, server_time: past };
    return { id, name, product: null, image_url: null, price_cents: 0, currency: null, available: 0, ...times };
  };
}

/** An attempt belongs to a buyer: another buyer on this computer must not finish it. */
function startReservation() {
  const session = currentSession();
  const newId = session?.user_id ?? null;
  // A new session of the same buyer changes nothing.
  if (newId === buyerId) return;
  buyerId = newId;
  reservation?.stop();
  phase = 'idle';
  reservation = session && createReservation({ userId: session.user_id, onChange: onReservation });
  panel.clear();
  const attempt = reservation?.underWay() ?? null;
  if (attempt !== null) {
    addMissing(attempt.lines);
    if (reservation.shouldResume()) reservation.start({ lines: attempt.lines });
    else panel.drawUnfinished();
  }
  draw();
}

function reserve() {
  if (reservation === null) return location.assign(signInAddress('#reserve'));
  if (!mayReserve()) return;
  refuse(0, '');
  reservation.start({ lines: cartLines() });
}

function onReservation(state) {
  phase = state.phase;
  const { outcome } = state;
  if (phase !== 'done') {
    panel.draw(state);
    return draw();
  }
  if (outcome.kind === 'sold') {
    takeOut(outcome.order.lines);
    return location.assign(`/order.html?id=${encodeURIComponent(outcome.order.id)}`);
  }
  if (outcome.kind === 'sign_in') return location.assign(signInAddress('#reserve'));
  notBeforeMs = outcome.kind === 'unavailable' ? performance.now() + (outcome.retryAfterMs ?? 0) : 0;
  refuse(outcome.itemId ?? 0, outcome.code);
  panel.draw(state);
  refresh();
}

/** Shows the reason beside the line that was refused. */
function refuse(itemId, code) {
  refusedId = itemId;
  for (const [id, row] of rows) row.refuse(id === itemId ? explain(code).title : '');
}

function onChange() {
  if (phase === 'done' && !isBusy()) {
    refuse(0, '');
    panel.clear();
  }
  draw();
}

function draw() {
  const lines = cartLines();
  byId('empty').hidden = lines.length > 0;
  byId('cart').hidden = lines.length === 0;
  const known = lines.filter((line) => items.has(line.item_id));
  for (const [id, row] of rows) {
    if (lines.some((line) => line.item_id === id)) continue;
    row.element.remove();
    rows.delete(id);
  }
  for (const line of known) {
    if (!rows.has(line.item_id)) addRow(line.item_id);
    rows.get(line.item_id).draw(line);
  }
  const total = totalOf(known);
  setText(byId('total'), known.length === lines.length ? total : '…');
  drawButton(total);
}

/** The price of all lines, with a sum for each currency: the server says that an order has one. */
function totalOf(lines) {
  const sums = new Map();
  for (const { item_id: id, quantity } of lines) {
    const { price_cents: cents, currency } = items.get(id);
    if (currency !== null) sums.set(currency, (sums.get(currency) ?? 0) + cents * quantity);
  }
  return [...sums].map(([currency, cents]) => money(cents, currency)).join(' + ') || '–';
}

/** The price of units of an item; an item that does not exist any more has none. */
function priceOf({ price_cents: cents, currency }, quantity) {
  return currency === null ? '–' : money(cents * quantity, currency);
}

function drawButton(amount) {
  const button = byId('reserve');
  button.setAttribute('aria-disabled', String(reservation !== null && !mayReserve()));
  const pauseSeconds = Math.ceil((notBeforeMs - performance.now()) / 1000);
  if (isBusy()) setText(button, text(`buy.${phase}`));
  else if (pauseSeconds > 0) setText(button, text('buy.tryIn', { count: pauseSeconds }));
  else if (reservation === null) setText(button, text('cart.signIn'));
  else if (isUnfinished()) setText(button, text('buy.again'));
  else setText(button, text(isPossible() ? 'cart.reserve' : 'cart.notAll', { amount }));
}

function mayReserve() {
  return !isBusy() && performance.now() >= notBeforeMs && (isUnfinished() || isPossible());
}

/** Whether each line can be had, as far as this page knows; the server has the last word. */
function isPossible() {
  const lines = cartLines();
  const isOpen = (id) => items.has(id) && stateOf(items.get(id)) === 'open';
  return lines.length > 0 && lines.every((line) => isOpen(line.item_id));
}

function isUnfinished() {
  return (reservation?.unfinished() ?? null) !== null;
}

function isBusy() {
  return phase === 'sending' || phase === 'waiting';
}

function addRow(id) {
  const item = items.get(id);
  const { name } = item;
  const chip = stateChip();
  const facts = el('p', { class: 'row-facts' });
  const reason = el('p', { class: 'cart-reason', id: `reason-${id}` });
  const amount = el('strong', {});
  const input = el('input', {
    type: 'number',
    inputmode: 'numeric',
    min: '1',
    'aria-label': text('cart.units', { name }),
    'aria-describedby': reason.id,
    onChange: () => set(Number(input.value)),
  });
  const button = (words, label, onClick) =>
    el('button', { type: 'button', text: words, 'aria-label': text(label, { name }), onClick });
  const fewer = button('−', 'cart.fewer', () => set(Number(input.value) - 1));
  const more = button('+', 'cart.more', () => set(Number(input.value) + 1));
  const removal = button(text('cart.remove'), 'cart.removeOf', remove);
  removal.classList.add('row-remove');
  const link = el('a', { href: `/item.html?id=${id}`, text: name });
  const element = el(
    'li',
    { class: 'row cart-row', 'data-item': id },
    el('div', { class: 'row-picture' }, picture(shownOf(item))),
    el('div', { class: 'row-body' }, el('h2', {}, link), facts, el('p', {}, chip.element), reason),
    el('div', { class: 'row-end' }, amount, el('span', { class: 'stepper' }, fewer, input, more), removal),
  );
  function set(wanted) {
    if (isBusy() || isUnfinished()) return draw();
    const quantity = Math.min(unitsMax(item), Math.max(1, Math.trunc(wanted) || 1));
    input.value = String(quantity);
    setUnits(id, quantity);
  }
  function remove() {
    if (isBusy() || isUnfinished()) return;
    const next = element.nextElementSibling ?? element.previousElementSibling;
    setUnits(id, 0);
    announce(text('cart.announceRemoved', { name }));
    // The focus must not be lost with the line.
    (next?.querySelector('.row-remove') ?? byId('main')).focus();
  }
  function drawRow({ quantity }) {
    const { state, atMs } = nextMoment(item);
    chip.draw(state);
    const stock = { available: count(Math.max(0, item.available)), total: count(item.total ?? 0) };
    const opens = () => text('buy.upcoming', { time: countdownText(atMs) });
    setText(facts, `${priceOf(item, 1)} · ${state === 'upcoming' ? opens() : text('stock.left', stock)}`);
    setText(amount, priceOf(item, quantity));
    // What is being typed stays.
    if (document.activeElement !== input) input.value = String(quantity);
    input.max = String(unitsMax(item));
    input.disabled = isBusy() || isUnfinished();
  }
  function refuseRow(why) {
    setText(reason, why);
    element.classList.toggle('refused', why !== '');
  }
  rows.set(id, { element, draw: drawRow, refuse: refuseRow });
  byId('lines').append(element);
}
