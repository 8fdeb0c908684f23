/**
 * One item: its live stock, its countdown, and the Buy button.
 */
import { get } from '../api.js';
import { createPurchase } from '../buy.js';
import { cartButton } from '../cart.js';
import { everySecond, serverNowMs } from '../clock.js';
import { drawPanel } from '../draw.js';
import { announce, byId, el, setText } from '../dom.js';
import { count, dateTime, duration, money, saleWindow } from '../format.js';
import { startFrame } from '../frame.js';
import { follow } from '../live.js';
import { outcomePanel } from '../outcome.js';
import { picture } from '../picture.js';
import { optionsOf, shownOf, variantAddress, variantsPanel } from '../product.js';
import { countdownText, mergeFacts, nextMoment, stateChip, stateOf, stockRuler } from '../sale.js';
import { currentSession, onSessionChange, signInAddress } from '../session.js';
import { text } from '../strings.js';
import { waitingPanel } from '../waiting.js';

const POLL_MS = 2_000;
const LOAD_RETRY_MS = 3_000;
/** Stock is spoken at most this often: a sale moves faster than speech. */
const SPEAK_MS_MIN = 15_000;
/** For items without a limit of their own. */
const QUANTITY_MAX = 99;

const parameters = new URLSearchParams(location.search);
const itemId = Number(parameters.get('id'));
const productId = Number(parameters.get('product'));
const chip = stateChip();
const stock = stockRuler();
const panel = outcomePanel(byId('outcome'), { item: () => item, again: buy, leave: () => purchase?.leave() });

const waiting = waitingPanel(byId('waiting'), { item: () => item, mayWait: () => room() > 0, accept: acceptOffer });

const toCart = cartButton(() => item, quantity);

const draw = drawPanel(byId('draw'), { item: () => item, onDrawn });

/** @type {any} */
let item = null;
/** @type {ReturnType<typeof createPurchase> | null} */
let purchase = null;
/** Whose purchases these are; undefined until the item is there. @type {number | null | undefined} */
let buyerId;
/** The purchase of a unit that is offered to a buyer who waited. @type {ReturnType<typeof createPurchase> | null} */
let offer = null;
let phase = 'idle';
/** The buyer's orders of this item. @type {object[]} */
let mine = [];
/** The order that the panel shows already. */
let shownOrderId = '';
/** The server asked not to be asked before this moment, by `performance.now()`. */
let notBeforeMs = 0;
let lastState = '';
let spokenAtMs = 0;

startFrame();
if (Number.isSafeInteger(itemId) && itemId > 0) load();
else if (Number.isSafeInteger(productId) && productId > 0) goToVariant();
else showMissing();

async function load() {
  try {
    begin(await get(`/api/items/${itemId}`));
  } catch (error) {
    onFailure(error, load);
  }
}

/** An address that names a product leads to the variant that can be bought first. */
async function goToVariant() {
  try {
    const address = await variantAddress(productId);
    if (address === null) showMissing();
    else location.replace(address);
  } catch (error) {
    onFailure(error, goToVariant);
  }
}

/** Only the service says what does not exist; without its answer the page tries again. */
function onFailure(error, again) {
  if (error.status === 404 || error.status === 400) return showMissing();
  if (error.status === undefined) throw error;
  byId('notice').hidden = false;
  setText(byId('notice'), text('item.loadFailed'));
  setTimeout(again, LOAD_RETRY_MS);
}

function begin(loaded) {
  item = loaded;
  byId('notice').hidden = true;
  byId('item').classList.remove('loading');
  byId('picture').replaceChildren(picture(shownOf(item), { eager: true }));
  if (item.product !== null) variantsPanel(byId('variants'), item);
  byId('state').replaceChildren(chip.element);
  byId('stock').replaceChildren(stock.element);
  byId('to-cart').replaceChildren(toCart.element);
  drawFacts();
  drawNow();
  byId('buy-form').addEventListener('submit', (event) => {
    event.preventDefault();
    buy();
  });
  byId('quantity-row').addEventListener('click', step);
  byId('quantity').addEventListener('input', drawButton);
  everySecond(drawNow);
  follow(`/api/items/${itemId}/events`, {
    events: { stock: take, state: take },
    poll: refresh,
    pollMs: POLL_MS,
    onStatus: (fresh) => byId('stock').classList.toggle('stale', !fresh),
  });
  startPurchase();
  onSessionChange(startPurchase);
  addEventListener('online', () => purchase?.hurry());
  addEventListener('pageshow', onReturn);
  if (location.hash === '#buy') byId('buy').focus();
}

async function refresh() {
  try {
    take(await get(`/api/items/${itemId}`));
    byId('stock').classList.remove('stale');
  } catch {
    byId('stock').classList.add('stale');
  }
}

function take(facts) {
  if (!mergeFacts(item, facts)) return;
  drawFacts();
  drawNow();
  speakStock();
}

/** A purchase belongs to a buyer: another buyer on this computer must not finish it. */
function startPurchase() {
  const session = currentSession();
  const newId = session?.user_id ?? null;
  // A new session of the same buyer changes nothing.
  if (newId === buyerId) return;
  buyerId = newId;
  purchase?.stop();
  offer?.stop();
  phase = 'idle';
  purchase = session && createPurchase({
    itemId,
    userId: session.user_id,
    hasRoom: () => item.waiting_room === true,
    onChange: onPurchase,
  });
  offer = session && createPurchase({
    itemId,
    userId: session.user_id,
    hasRoom: () => false,
    isOffer: true,
    onChange: onPurchase,
  });
  panel.clear();
  loadMine();
  // Until the answer comes, the orders of the buyer before are not shown.
  drawMine();
  waiting.forget();
  waiting.load();
  draw.load();
  drawButton();
  if (purchase === null) return;
  // A repetition with its key tells what became of it.
  if (offer.shouldResume()) return offer.start(1);
  const attempt = purchase.underWay();
  if (attempt === null) return;
  byId('quantity').value = String(attempt.quantity);
  if (purchase.shouldResume()) purchase.start(attempt.quantity);
  else panel.drawUnfinished();
}

function buy() {
  if (purchase === null) return location.assign(signInAddress('#buy'));
  const mayAsk = mayStart() || purchase.unfinished() !== null;
  if (isBusy() || !mayAsk || pauseSeconds() > 0) return;
  purchase.start(quantity());
}

/** Whether a purchase can begin: the line of a waiting room also before the opening. */
function mayStart() {
  const state = stateOf(item);
  return room() > 0 && (state === 'open' || (state === 'upcoming' && item.waiting_room === true));
}

/** The first places have offers now, and units that nobody entered for can be bought. */
function onDrawn() {
  drawButton();
  waiting.load();
}

function acceptOffer() {
  if (offer === null || isBusy()) return;
  offer.start(1);
}

function onPurchase(state) {
  phase = state.phase;
  panel.draw(state);
  if (state.phase !== 'done') return drawButton();
  notBeforeMs = state.outcome.kind === 'unavailable' ? performance.now() + (state.outcome.retryAfterMs ?? 0) : 0;
  drawButton();
  if (state.outcome.kind === 'sign_in') return location.assign(signInAddress('#buy'));
  if (state.outcome.kind === 'queued')
    return location.assign(`/order.html?id=${encodeURIComponent(state.outcome.order.id)}`);
  shownOrderId = state.outcome.order?.id ?? '';
  refresh();
  loadMine();
  waiting.load();
}

/** Of an order that was paid on its own page, the list tells the truth. A page that comes back would not. */
function onReturn({ persisted }) {
  if (!persisted || shownOrderId === '' || isBusy()) return;
  shownOrderId = '';
  panel.clear();
  loadMine();
}

function drawFacts() {
  document.title = text('title.item', { name: item.name });
  const shown = shownOf(item);
  setText(byId('name'), shown.name);
  setText(byId('description'), shown.description ?? '');
  byId('options').hidden = item.product === null;
  if (item.product !== null) setText(byId('options'), optionsOf(item));
  setText(byId('price'), money(item.price_cents, item.currency));
  setText(byId('limit'), item.per_buyer_limit > 0 ? count(item.per_buyer_limit) : text('item.noLimit'));
  setText(byId('hold'), duration(item.hold_seconds));
  setText(byId('window'), text('item.windowText', saleWindow(item.starts_at, item.ends_at)));
  byId('quantity-row').hidden = item.per_buyer_limit === 1;
  const group = item.limit_group ?? null;
  byId('group-row').hidden = group === null;
  if (group !== null) setText(byId('group'), text('item.groupText', { limit: count(group.per_buyer_limit), name: group.name }));
}

function drawNow() {
  const { state, atMs, label } = nextMoment(item);
  chip.draw(state);
  stock.draw(item);
  byId('item').dataset.state = state;
  setText(byId('moment-label'), label);
  setText(byId('moment'), state === 'ended' ? dateTime(item.ends_at) : countdownText(atMs));
  byId('returns-hint').hidden = state !== 'sold_out' || item.offer_seconds > 0;
  waiting.draw();
  if (lastState !== '' && lastState !== state) onStateChange(state);
  lastState = state;
  drawButton();
}

function onStateChange(state) {
  if (state === 'open') {
    announce(text('item.nowOpen'));
    // "Sold out" or "not open yet" of a moment ago is no longer true.
    if (phase === 'done' && byId('outcome').dataset.tone === 'bad') panel.clear();
  } else if (state === 'sold_out') {
    announce(text('item.nowSoldOut'));
  }
}

function drawButton() {
  if (item === null) return;
  const button = byId('buy');
  const state = stateOf(item);
  byId('buy-form').hidden = !draw.isOver();
  toCart.draw();
  const busy = isBusy();
  const unfinished = purchase?.unfinished() ?? null;
  const possible = !busy && pauseSeconds() === 0 && (mayStart() || unfinished !== null);
  // aria-disabled instead of disabled: the focus must not fall off the button as it changes.
  button.setAttribute('aria-disabled', String(!possible));
  byId('quantity').disabled = busy || unfinished !== null;
  byId('quantity').max = String(maxQuantity());
  setText(button, buttonText(state, busy, unfinished));
}

function buttonText(state, busy, unfinished) {
  if (busy) return text(`buy.${phase}`);
  if (pauseSeconds() > 0) return text('buy.tryIn', { count: pauseSeconds() });
  if (unfinished !== null && phase === 'done') return text('buy.again');
  if (state === 'upcoming') {
    const mayJoin = purchase !== null && mayStart();
    return text(mayJoin ? 'buy.join' : 'buy.upcoming', { time: countdownText(Date.parse(item.starts_at)) });
  }
  if (state !== 'open' && unfinished === null) return text(`buy.${state}`);
  if (purchase === null) return text('buy.signIn');
  if (unfinished === null && room() < 1) return text('buy.limit', { count: item.per_buyer_limit });
  if (item.price_cents === 0) return text('buy.free');
  return text('buy.buy', { amount: money(item.price_cents * quantity(), item.currency) });
}

function isBusy() {
  return phase === 'line' || phase === 'sending' || phase === 'waiting';
}

function pauseSeconds() {
  return Math.max(0, Math.ceil((notBeforeMs - performance.now()) / 1000));
}

/** How many more this buyer may have, as far as this page knows; the server has the last word. */
function room() {
  return item.per_buyer_limit > 0 ? item.per_buyer_limit - owned() : QUANTITY_MAX;
}

function maxQuantity() {
  return Math.max(1, Math.min(QUANTITY_MAX, room()));
}

function quantity() {
  const wanted = Math.trunc(Number(byId('quantity').value));
  return Math.min(maxQuantity(), Math.max(1, wanted || 1));
}

function step(event) {
  const button = event.target.closest('button[data-step]');
  if (button === null || byId('quantity').disabled) return;
  const wanted = quantity() + Number(button.dataset.step);
  byId('quantity').value = String(Math.min(maxQuantity(), Math.max(1, wanted)));
  drawButton();
}

function speakStock() {
  if (stateOf(item) !== 'open' || Date.now() - spokenAtMs < SPEAK_MS_MIN) return;
  spokenAtMs = Date.now();
  announce(text('stock.announce', { count: item.available }));
}

/** The buyer's own orders of this item: an unpaid one is not forgotten, and the limit is known. */
async function loadMine() {
  mine = [];
  const buyer = currentSession()?.user_id;
  try {
    const listed = buyer === undefined ? [] : (await get('/api/orders')).orders;
    // Another buyer may be signed in by now.
    if (currentSession()?.user_id !== buyer) return;
    mine = listed.filter((order) => unitsOf(order) > 0);
  } catch {
    // A convenience only; the orders page says what is wrong.
  }
  drawMine();
  drawButton();
  waiting.draw();
}

function drawMine() {
  const place = byId('mine');
  const others = mine.filter((order) => counts(order) && order.id !== shownOrderId);
  place.hidden = others.length === 0;
  const links = others.map((order) => {
    const { id, status, amount_cents, currency } = order;
    const words = {
      status: text(`status.${status}`),
      quantity: count(unitsOf(order)),
      amount: money(amount_cents, currency),
    };
    return el(
      'li',
      {},
      el('a', { href: `/order.html?id=${encodeURIComponent(id)}`, text: text('item.mineEntry', words) }),
    );
  });
  place.replaceChildren(el('p', { text: text('item.mine', { count: others.length }) }), el('ul', {}, ...links));
}

/** Whether an order counts against the limit: a hold that ran out does not. */
function counts({ status, expires_at }) {
  return status === 'queued' || status === 'paid' || (status === 'pending' && Date.parse(expires_at) > serverNowMs());
}

/** The units of this item in an order. */
function unitsOf({ lines }) {
  return lines.filter((line) => line.item_id === itemId).reduce((sum, line) => sum + line.quantity, 0);
}

function owned() {
  return mine.filter(counts).reduce((sum, order) => sum + unitsOf(order), 0);
}

function showMissing() {
  byId('item').hidden = true;
  byId('missing').hidden = false;
  document.title = text('title.missing');
}
