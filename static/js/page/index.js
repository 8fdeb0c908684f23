/**
 * The list of sales: the band with the next moment on the clock, then what is open, coming and gone.
 */
import { get } from '../api.js';
import { cartButton } from '../cart.js';
import { everySecond, serverNowMs } from '../clock.js';
import { announce, byId, el, setText } from '../dom.js';
import { countdown, money } from '../format.js';
import { startFrame } from '../frame.js';
import { follow } from '../live.js';
import { picture } from '../picture.js';
import { countdownText, mergeFacts, nextMoment, stateChip, stateOf, stockRuler } from '../sale.js';
import { text } from '../strings.js';

const POLL_MS = 5_000;
/** One of the shared streams stays free for an item page in another tab. */
const STREAMS_MAX = 3;

/** The section a state belongs to. */
const SECTIONS = { open: 'open', paused: 'open', upcoming: 'upcoming', sold_out: 'gone', ended: 'gone' };

/** @type {Map<number, {item: object, element: HTMLElement, draw: () => void, tick: () => void, stream: any, inView: boolean}>} */
const cards = new Map();

startFrame('title.index');
const inView = new IntersectionObserver((entries) => {
  for (const entry of entries) cards.get(Number(entry.target.dataset.item)).inView = entry.isIntersecting;
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
  const known = new Set(items.map((item) => item.id));
  for (const [id, card] of cards) {
    if (known.has(id)) continue;
    card.stream?.close();
    inView.unobserve(card.element);
    card.element.remove();
    cards.delete(id);
  }
  for (const item of items) {
    const card = cards.get(item.id);
    if (card === undefined) addCard(item);
    else if (mergeFacts(card.item, item)) card.draw();
  }
  byId('empty').hidden = items.length > 0;
  arrange();
}

function addCard(item) {
  const chip = stateChip();
  const stock = stockRuler();
  const moment = el('p', { class: 'card-moment' });
  const price = el('p', { class: 'price-tag' });
  const name = el('a', { href: `/item.html?id=${item.id}` });
  const description = el('p', { class: 'card-text' });
  const toCart = cartButton(() => item, () => 1);
  const element = el(
    'li',
    { class: 'card', 'data-item': item.id },
    el('div', { class: 'card-picture' }, picture(item), price),
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
  const card = { item, element, stream: null, inView: false, draw, tick };
  function tick() {
    const { state, atMs, label } = nextMoment(item);
    if (element.dataset.state !== undefined && element.dataset.state !== state) announceChange(item, state);
    element.dataset.state = state;
    chip.draw(state);
    setText(moment, state === 'ended' ? '' : `${label} ${countdownText(atMs)}`);
  }
  function draw() {
    setText(name, item.name);
    setText(description, item.description ?? '');
    setText(price, money(item.price_cents));
    stock.draw(item);
    toCart.draw();
    tick();
  }
  cards.set(item.id, card);
  draw();
  inView.observe(element);
}

function announceChange(item, state) {
  announce(`${item.name}: ${text(`state.${state}`)}`);
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
  const label = text(labels[state], { name: next.item.name });
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
    if (card.stream === null || wanted.includes(card)) continue;
    card.stream.close();
    card.stream = null;
  }
  for (const card of wanted) {
    if (card.stream !== null) continue;
    const takeFacts = (facts) => mergeFacts(card.item, facts) && card.draw();
    card.stream = follow(`/api/items/${card.item.id}/events`, {
      events: { stock: takeFacts, state: takeFacts },
      poll: () => {}, // the list is polled anyway
      pollMs: POLL_MS,
    });
  }
}
