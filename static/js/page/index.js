/**
 * The list of sales: the band with the next moment on the clock, then what is open, coming and gone.
 */
import { get } from '../api.js';
import { cartButton } from '../cart.js';
import { everySecond, serverNowMs } from '../clock.js';
import { announce, byId, el, setText } from '../dom.js';
import { countdown } from '../format.js';
import { startFrame } from '../frame.js';
import { follow } from '../live.js';
import { picture } from '../picture.js';
import { byEntry, leadOf, priceOf, shownOf } from '../product.js';
import { countdownText, mergeFacts, nextMoment, stateChip, stateOf, stockRuler } from '../sale.js';
import { text } from '../strings.js';

const POLL_MS = 5_000;
/** One of the shared streams stays free for an item page in another tab. */
const STREAMS_MAX = 3;

/** The section a state belongs to. */
const SECTIONS = { open: 'open', paused: 'open', upcoming: 'upcoming', sold_out: 'gone', ended: 'gone' };

/**
 * A card for each item, and one for all items of a product; `item` is the one that a buyer can have first.
 * @type {Map<string, {item: object, element: HTMLElement, take: (items: object[]) => void, tick: () => void, stream: any, streamId: number, inView: boolean}>}
 */
const cards = new Map();

startFrame('title.index');
const inView = new IntersectionObserver((entries) => {
  for (const entry of entries) cards.get(entry.target.dataset.card).inView = entry.isIntersecting;
  chooseStreams();
});
everySecond(() => {
  for (const card of cards.values()) card.tick();
  arrange();
});
document.addEventListener('visibilitychange', () => document.hidden || refresh());
keepRefreshing();

async function keepRefreshing() {
  if (!document.hidden) await refresh();
  setTimeout(keepRefreshing, POLL_MS);
}

async function refresh() {
  try {
    const { items } = await get('/api/items');
    take(items);
    byId('failed').hidden = true;
  } catch {
    byId('failed').hidden = false;
  }
  byId('loading')?.remove();
}

function take(items) {
  const entries = byEntry(items);
  for (const [key, card] of cards) {
    if (entries.has(key)) continue;
    card.stream?.close();
    inView.unobserve(card.element);
    card.element.remove();
    cards.delete(key);
  }
  for (const [key, members] of entries) {
    if (!cards.has(key)) addCard(key, members[0]);
    cards.get(key).take(members);
  }
  byId('empty').hidden = items.length > 0;
  arrange();
}

function addCard(key, first) {
  /** @type {Map<number, object>} */
  const items = new Map([[first.id, first]]);
  const chip = stateChip();
  const stock = stockRuler();
  const moment = el('p', { class: 'card-moment' });
  const price = el('p', { class: 'price-tag' });
  const name = el('a', {});
  const description = el('p', { class: 'card-text' });
  const toCart = cartButton(() => card.item, () => 1, () => items.size === 1);
  const element = el(
    'li',
    { class: 'card', 'data-card': key },
    el('div', { class: 'card-picture' }, picture(shownOf(first)), price),
    el(
      'div',
      { class: 'card-body' },
      el('div', { class: 'card-line' }, chip.element, moment),
      el('h3', {}, name),
      description,
      stock.element,
      toCart.element,
    ),
  );
  const card = { item: first, element, stream: null, streamId: 0, inView: false, take, takeFacts, tick };
  function tick() {
    card.item = leadOf([...items.values()]);
    const { state, atMs, label } = nextMoment(card.item);
    if (element.dataset.state !== undefined && element.dataset.state !== state) announceChange(card.item, state);
    element.dataset.state = state;
    chip.draw(state);
    setText(moment, state === 'ended' ? '' : `${label} ${countdownText(atMs)}`);
  }
  function draw() {
    tick();
    const shown = shownOf(card.item);
    const sum = (units) => [...items.values()].reduce((total, item) => total + Math.max(0, units(item)), 0);
    setText(name, shown.name);
    name.href = `/item.html?id=${card.item.id}`;
    setText(description, shown.description ?? '');
    setText(price, priceOf([...items.values()]));
    toCart.draw();
    stock.draw({ ...card.item, available: sum((item) => item.available), total: sum((item) => item.total) });
  }
  function take(members) {
    const known = new Set(members.map((item) => item.id));
    for (const id of items.keys()) if (!known.has(id)) items.delete(id);
    for (const item of members) {
      if (items.has(item.id)) mergeFacts(items.get(item.id), item);
      else items.set(item.id, item);
    }
    draw();
  }
  function takeFacts(id, facts) {
    if (items.has(id) && mergeFacts(items.get(id), facts)) draw();
  }
  cards.set(key, card);
  inView.observe(element);
}

function announceChange(item, state) {
  announce(`${shownOf(item).name}: ${text(`state.${state}`)}`);
}

/** Put every card in its section, in the order of its next moment. Moves only what is out of place. */
function arrange() {
  const sections = { open: [], upcoming: [], gone: [] };
  for (const card of cards.values()) sections[SECTIONS[stateOf(card.item)]].push(card);
  for (const [name, members] of Object.entries(sections)) {
    const list = byId(`list-${name}`);
    const latestFirst = name === 'gone' ? -1 : 1;
    members.sort((a, b) => latestFirst * (nextMoment(a.item).atMs - nextMoment(b.item).atMs) || a.item.id - b.item.id);
    members.forEach((card, place) => {
      if (list.children[place] !== card.element) list.insertBefore(card.element, list.children[place] ?? null);
    });
    byId(`section-${name}`).hidden = members.length === 0;
  }
  drawHero(sections);
}

function drawHero({ open, upcoming }) {
  const next = open.find((card) => !card.item.paused) ?? upcoming[0] ?? open[0];
  const hero = byId('hero');
  if (next === undefined) {
    if (byId('loading') === null) setText(byId('hero-label'), text('index.heroNone'));
    setText(byId('hero-clock'), '--:--:--');
    byId('hero-link').hidden = true;
    return;
  }
  const { state, atMs } = nextMoment(next.item);
  const labels = { open: 'index.heroOpen', upcoming: 'index.heroUpcoming', paused: 'index.heroPaused' };
  const { days, clock } = countdown(atMs - serverNowMs());
  hero.dataset.state = state;
  const label = text(labels[state], { name: shownOf(next.item).name });
  setText(byId('hero-label'), days > 0 ? `${label} ${text('countdown.days', { count: days })}` : label);
  setText(byId('hero-clock'), clock);
  const second = Number(clock.slice(-2));
  byId('hero-ruler').style.setProperty('--share', `${(second / 60) * 100}%`);
  const link = byId('hero-link');
  link.hidden = false;
  link.href = `/item.html?id=${next.item.id}`;
  setText(link, text(state === 'upcoming' ? 'index.heroWatch' : 'index.heroGo'));
}

/** Streams go to the cards in view whose stock can still move; the others live by the poll. */
function chooseStreams() {
  const wanted = [...cards.values()]
    .filter((card) => card.inView && stateOf(card.item) !== 'ended')
    .slice(0, STREAMS_MAX);
  for (const card of cards.values()) {
    if (card.stream === null || (wanted.includes(card) && card.streamId === card.item.id)) continue;
    card.stream.close();
    card.stream = null;
  }
  for (const card of wanted) {
    if (card.stream !== null) continue;
    const { id } = card.item;
    const takeFacts = (facts) => card.takeFacts(id, facts);
    card.streamId = id;
    card.stream = follow(`/api/items/${id}/events`, {
      events: { stock: takeFacts, state: takeFacts },
      poll: () => {}, // the list is polled anyway
      pollMs: POLL_MS,
    });
  }
}
