/**
 * The buyer's orders, newest first, live.
 */
import { get } from '../api.js';
import { everySecond, serverNowMs } from '../clock.js';
import { announce, byId, el, setText } from '../dom.js';
import { count, dateTime, money, shortSpan } from '../format.js';
import { startFrame } from '../frame.js';
import { follow } from '../live.js';
import { isOvertaken } from '../overtaken.js';
import { picture } from '../picture.js';
import { currentSession, keepToBuyer, signInAddress } from '../session.js';
import { text } from '../strings.js';

const POLL_MS = 4_000;

/** @type {Map<string, {order: object, element: HTMLElement, draw: () => void}>} */
const rows = new Map();
/** Items by id; a promise while it is being fetched. @type {Map<number, Promise<object>>} */
const items = new Map();
let cursor = null;
let begun = false;

startFrame('title.orders');
keepToBuyer();
if (currentSession() === null) {
  location.replace(signInAddress());
} else {
  refresh();
  follow('/api/orders/events', { events: { order: takeNews }, poll: refresh, pollMs: POLL_MS });
  everySecond(() => rows.forEach((row) => row.draw()));
  byId('more').addEventListener('click', loadMore);
}

async function refresh() {
  try {
    const page = await get('/api/orders');
    if (!begun) await firstItems();
    for (const order of page.orders) take(order);
    if (!begun) setNext(page.next);
    begun = true;
    byId('failed').hidden = true;
    drawEmpty();
  } catch (error) {
    if (error.status === 401) return location.replace(signInAddress());
    if (error.status === undefined) throw error;
    byId('failed').hidden = false;
    if (!begun) setTimeout(refresh, POLL_MS);
  }
}

async function loadMore() {
  try {
    const page = await get(`/api/orders?before=${encodeURIComponent(cursor)}`);
    for (const order of page.orders) take(order);
    setNext(page.next);
  } catch {
    byId('failed').hidden = false;
  }
}

function setNext(next) {
  cursor = next;
  byId('more').hidden = !next;
}

function takeNews(order) {
  const known = rows.get(order.id)?.order;
  if (known !== undefined && isOvertaken(known, order)) return;
  take(order);
  drawEmpty();
  nameOf(order).then((name) => {
    if (known === undefined) announce(text('orders.new', { name }));
    else if (known.status !== order.status)
      announce(text('orders.changed', { name, status: text(`status.${order.status}`) }));
  });
}

function take(order) {
  const row = rows.get(order.id);
  if (row === undefined) return addRow(order);
  if (isOvertaken(row.order, order)) return;
  row.order = order;
  row.draw();
}

function addRow(order) {
  const name = el('a', {
    href: `/order.html?id=${encodeURIComponent(order.id)}`,
    text: text('order.itemFallback', { id: order.item_id }),
  });
  const status = el('span', { class: 'chip' });
  const hold = el('span', { class: 'row-hold' });
  const thumb = el('div', { class: 'row-picture' });
  const placed = dateTime(order.created_at);
  const unitPrice = money(order.amount_cents / order.quantity, order.currency);
  const facts = order.lines.length === 1 && order.quantity > 1 ? `${count(order.quantity)} × ${unitPrice} · ${placed}` : placed;
  const element = el(
    'li',
    { class: 'row' },
    thumb,
    el('div', { class: 'row-body' }, el('h2', {}, name), el('p', { class: 'row-facts', text: facts })),
    el(
      'div',
      { class: 'row-end' },
      el('strong', { text: money(order.amount_cents, order.currency) }),
      el('span', { class: 'row-status' }, hold, status),
    ),
  );
  const row = { order, element, draw };
  function draw() {
    const { status: name, expires_at } = row.order;
    setText(status, text(`status.${name}`));
    status.dataset.state = name;
    const leftMs = name === 'pending' ? Date.parse(expires_at) - serverNowMs() : 0;
    setText(hold, leftMs > 0 ? text('orders.payWithin', { time: shortSpan(leftMs) }) : '');
  }
  draw();
  rows.set(order.id, row);
  place(row);
  nameOf(order).then((words) => setText(name, words));
  itemOf(order.item_id).then((item) => thumb.replaceChildren(picture(item)));
}

/** The names of all items of an order; with their units, if there are several items. */
async function nameOf({ lines }) {
  const named = await Promise.all(lines.map(async (line) => ({ ...line, ...(await itemOf(line.item_id)) })));
  if (named.length === 1) return named[0].name;
  return named.map(({ name, quantity }) => (quantity > 1 ? `${count(quantity)} × ${name}` : name)).join(', ');
}

/** Into the list, newest first: ids of orders rise with time. */
function place(row) {
  const older = [...rows.values()].filter((other) => other.order.id < row.order.id);
  const next = older.reduce(
    (newest, other) => (newest === null || other.order.id > newest.order.id ? other : newest),
    null,
  );
  byId('list').insertBefore(row.element, next?.element ?? null);
}

function drawEmpty() {
  byId('empty').hidden = rows.size > 0;
}

/** One request for all that is in the shop; what is not there any more is asked for by itself. */
async function firstItems() {
  try {
    const answer = await get('/api/items');
    for (const item of answer.items) items.set(item.id, Promise.resolve(item));
  } catch {
    // Each is asked for by itself below.
  }
}

function itemOf(id) {
  if (!items.has(id)) {
    const unknown = { id, name: text('order.itemFallback', { id }), image_url: null };
    items.set(
      id,
      get(`/api/items/${id}`).catch(() => unknown),
    );
  }
  return items.get(id);
}
