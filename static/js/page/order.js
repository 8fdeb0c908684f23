/**
 * One order: how it stands, the time left to pay; pay, extend the hold, cancel and give back; live.
 */
import { get, post } from '../api.js';
import { everySecond, serverNowMs } from '../clock.js';
import { announce, byId, el, setText } from '../dom.js';
import { count, dateTime, duration, money, shortSpan } from '../format.js';
import { startFrame } from '../frame.js';
import { follow } from '../live.js';
import { isOvertaken } from '../overtaken.js';
import { picture } from '../picture.js';
import { keepToBuyer, signInAddress } from '../session.js';
import { explain, text } from '../strings.js';

const POLL_MS = 2_000;
const LOAD_RETRY_MS = 3_000;
const AWAITED_POLL_MS = 4_000;
const ATTEMPTS_MAX = 5;
const BACKOFF_MS = 600;
/** From here on the hold's clock turns hot, or in the last quarter of a short hold. */
const LOW_MS = 60_000;
/** The statuses of an answer that has looked at the order. */
const JUDGED = [404, 409, 410];
/** The steps that a button makes. */
const STEPS = { pay: 'payment', extend: 'extension', cancel: 'cancellation', return: 'return' };

const orderId = new URLSearchParams(location.search).get('id') ?? '';
const address = `/api/orders/${encodeURIComponent(orderId)}`;
/** @type {any} */
let order = null;
let busy = '';
let paidElsewhere = false;
let holdSpanMs = 0;
/** What all items of the order allow, in seconds. */
let allowed = { extend: 0, return: 0 };
/** The step that the dialog asks about. */
let asked = '';

startFrame('title.order');
keepToBuyer();
if (orderId === '') showMissing();
else load();

async function load() {
  try {
    const loaded = await get(address);
    // The item's answer also sets the clock: a countdown drawn before it could be wrong.
    const items = await (loaded.lines.length > 1 ? drawLines(loaded) : drawItem(loaded.item_id));
    const least = (field) => Math.min(...items.map((item) => item[field] ?? 0));
    allowed = { extend: least('extend_seconds'), return: least('return_seconds') };
    begin(loaded);
  } catch (error) {
    if (error.status === 401) return location.replace(signInAddress());
    if (error.status === 404 || error.status === 400) return showMissing();
    if (error.status === undefined) throw error;
    setText(byId('status-text'), text('order.offline'));
    setTimeout(load, LOAD_RETRY_MS);
  }
}

function begin(loaded) {
  byId('order').classList.remove('loading');
  paidElsewhere = loaded.paid_elsewhere === true;
  take(loaded);
  byId('pay').addEventListener('click', () => act('pay'));
  byId('extend').addEventListener('click', () => act('extend'));
  for (const step of ['cancel', 'return']) byId(step).addEventListener('click', () => ask(step));
  byId('cancel-dialog').addEventListener('close', (event) => event.target.returnValue === 'yes' && act(asked));
  everySecond(drawNow);
  // The change that such an order waits for is worth asking for, should its event be lost.
  setInterval(() => !document.hidden && awaitsChange() && refresh(), AWAITED_POLL_MS);
  follow('/api/orders/events', {
    events: { order: (news) => news.id === orderId && take(news) },
    poll: refresh,
    pollMs: POLL_MS,
  });
}

async function refresh() {
  try {
    take(await get(address));
  } catch (error) {
    if (error.status === 401) location.replace(signInAddress());
  }
}

function awaitsChange() {
  const late = order.status === 'pending' && Date.parse(order.expires_at) <= serverNowMs();
  return order.status === 'queued' || late;
}

function take(news) {
  if (order !== null && isOvertaken(order, news)) return;
  const changed = order !== null && order.status !== news.status;
  order = news;
  if (order.expires_at) holdSpanMs = Math.max(1, Date.parse(order.expires_at) - Date.parse(order.created_at));
  draw();
  if (!changed) return;
  announce(`${text(`order.${nameOf(order)}`)}. ${text(`order.${nameOf(order)}Text`)}`);
  setText(byId('action-text'), '');
}

function draw() {
  byId('order').dataset.status = order.status;
  setText(byId('number'), order.id);
  setText(byId('quantity'), count(order.quantity));
  setText(byId('amount'), money(order.amount_cents, order.currency));
  setText(byId('placed'), dateTime(order.created_at));
  const { strategy, fence } = order;
  setText(
    byId('strategy'),
    fence === null || fence === undefined ? strategy : text('order.fence', { strategy, fence }),
  );
  byId('paid-row').hidden = !order.paid_at;
  if (order.paid_at) setText(byId('paid-at'), dateTime(order.paid_at));
  drawNow();
}

/** The words for a status: a cancelled order may have been paid before. */
function nameOf({ status, paid_at: paidAt }) {
  return status === 'cancelled' && paidAt ? 'returned' : status;
}

function drawNow() {
  const leftMs = order.status === 'pending' ? Date.parse(order.expires_at) - serverNowMs() : 0;
  const late = order.status === 'pending' && leftMs <= 0;
  const name = late ? 'pendingLate' : nameOf(order);
  byId('order').dataset.late = String(late);
  setText(byId('status'), text(`order.${name}`));
  setText(byId('status-text'), text(name === 'pending' && isFree() ? 'order.freeText' : `order.${name}Text`));
  byId('hold').hidden = order.status !== 'pending';
  setText(byId('hold-clock'), shortSpan(leftMs));
  byId('hold-ruler').style.setProperty(
    '--share',
    `${Math.max(0, Math.min(100, (leftMs / holdSpanMs) * 100)).toFixed(2)}%`,
  );
  byId('hold').classList.toggle('low', leftMs < Math.min(LOW_MS, holdSpanMs / 4));
  drawButtons(late);
}

/** Whether there is nothing to pay: then the button confirms the order, whoever takes the money of others. */
function isFree() {
  return order.amount_cents === 0;
}

function drawButtons(late) {
  const payable = order.status === 'pending' || order.status === 'expired';
  const extended = order.extended_seconds ?? null;
  const returnableMs = order.status === 'paid' ? Date.parse(order.paid_at) + allowed.return * 1_000 - serverNowMs() : 0;
  byId('pay').hidden = !payable;
  byId('demo').hidden = !payable || paidElsewhere || isFree();
  byId('cancel').hidden = order.status !== 'pending';
  byId('extend').hidden = order.status !== 'pending' || late || extended !== null || allowed.extend === 0;
  byId('extended').hidden = extended === null;
  byId('return').hidden = returnableMs <= 0;
  for (const id of Object.keys(STEPS)) byId(id).setAttribute('aria-disabled', String(busy !== ''));
  const amount = money(order.amount_cents, order.currency);
  const payKey = order.status === 'expired' || late ? 'order.payLate' : 'order.pay';
  const wording = (step, busyKey, words) => setText(byId(step), busy === step ? text(busyKey) : words);
  if (isFree()) wording('pay', 'order.confirming', text('order.free'));
  else wording('pay', 'order.paying', text(payKey, { amount }));
  wording('extend', 'order.extending', text('order.extend', { time: duration(allowed.extend) }));
  wording('cancel', 'order.cancelling', text('order.cancel'));
  wording('return', 'order.returning', text('order.return'));
  if (extended !== null) setText(byId('extended'), text('order.extended', { time: duration(extended) }));
}

/** Asks before a step that cannot be taken back. */
function ask(step) {
  if (busy !== '') return;
  asked = step;
  setText(byId('cancel-heading'), text(`order.${step}Ask`));
  setText(byId('cancel-text'), text(`order.${step}AskText`));
  setText(byId('cancel-yes'), text(`order.${step}Yes`));
  byId('cancel-dialog').returnValue = '';
  byId('cancel-dialog').showModal();
}

/** All steps are idempotent: repeating one whose answer was lost changes nothing more. */
async function act(step) {
  if (busy !== '') return;
  busy = step;
  setText(byId('action-text'), '');
  drawNow();
  let mayHaveChanged = false;
  try {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const answer = await post(`${address}/${STEPS[step]}`);
        if (answer.checkout_url) return location.assign(answer.checkout_url);
        take(answer);
        if (step === 'extend') announce(byId('extended').textContent);
        break;
      } catch (error) {
        mayHaveChanged ||= error.changed === 'unknown';
        const passing = error.changed === 'unknown' || error.status === 429 || error.status >= 500;
        if (!passing || attempt >= ATTEMPTS_MAX) throw error;
        const pauseMs = Math.max(error.retryAfterMs ?? 0, BACKOFF_MS * attempt * (0.5 + Math.random()));
        await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs, 8_000)));
      }
    }
  } catch (error) {
    await explainRefusal(error, mayHaveChanged);
  } finally {
    busy = '';
    drawNow();
  }
}

/** A refusal takes nothing back that an earlier try may have done, unless it tells how the order stands now. */
async function explainRefusal(error, mayHaveChanged) {
  if (error.status === undefined) throw error;
  if (error.status === 401) return location.assign(signInAddress());
  const known = explain(error.code);
  // The page of a proxy has no code of ours.
  const isJudged = JUDGED.includes(error.status) && error.code !== 'other';
  const isUnknown = mayHaveChanged && !isJudged;
  const refusal = error.code === 'sold_out' ? text('order.payRefused') : `${known.title}. ${known.detail}`;
  // The order first: its change clears the line that is then written.
  await refresh();
  setText(byId('action-text'), isUnknown ? text('order.payUnknown') : refusal);
}

/** @returns {Promise<object[]>} the item, as far as it is known */
async function drawItem(itemId) {
  const link = byId('item-link');
  link.href = `/item.html?id=${itemId}`;
  try {
    const item = await get(`/api/items/${itemId}`);
    setText(byId('item-name'), item.name);
    byId('picture').replaceChildren(picture(item, { eager: true }));
    return [item];
  } catch {
    const name = text('order.itemFallback', { id: itemId });
    setText(byId('item-name'), name);
    byId('picture').replaceChildren(picture({ id: itemId, name, image_url: null }));
    return [{}];
  }
}

/** An order of several items shows a list of them, in place of the item and its units. Returns the items. */
async function drawLines({ lines, currency }) {
  const unknown = (id) => ({ name: text('order.itemFallback', { id }) });
  const items = await Promise.all(lines.map(({ item_id: id }) => get(`/api/items/${id}`).catch(() => unknown(id))));
  const entries = lines.map(({ item_id: id, quantity, amount_cents: amount }, at) => {
    const { name } = items[at];
    const link = el('a', { href: `/item.html?id=${id}`, text: name });
    return el('li', {}, el('span', {}, `${count(quantity)} × `, link), el('span', { text: money(amount, currency) }));
  });
  byId('lines').replaceChildren(...entries);
  byId('lines').hidden = false;
  byId('one-item').hidden = true;
  byId('quantity-row').hidden = true;
  return items;
}

function showMissing() {
  byId('order').hidden = true;
  byId('missing').hidden = false;
}
