/**
 * How a sale looks: its state, its countdown and its stock. Shared by the list and the item page.
 */
import { serverNowMs } from './clock.js';
import { el, setText } from './dom.js';
import { count, countdown } from './format.js';
import { text } from './strings.js';

/** From this share of the stock on the ruler turns hot. */
const LOW_SHARE = 0.1;
/** Facts older than what is shown were overtaken on the way; much older ones come from another server's clock. */
const OVERTAKEN_MS_MAX = 3_000;

/**
 * The state of an item this very moment: the server's last word, moved on by the clock, so that a
 * waiting page opens on the second without asking (thousands would ask in that second).
 * @param {object} item
 * @returns {'upcoming'|'open'|'sold_out'|'ended'|'paused'}
 */
export function stateOf(item) {
  const nowMs = serverNowMs();
  if (nowMs >= Date.parse(item.ends_at)) return 'ended';
  if (nowMs < Date.parse(item.starts_at)) return 'upcoming';
  if (item.paused) return 'paused';
  return item.available > 0 ? 'open' : 'sold_out';
}

/**
 * Take over newer facts into an item; older ones, overtaken on the way, are dropped.
 * @param {object} item changed in place
 * @param {object} facts an item, or the data of a `stock` or `state` event
 * @returns {boolean} whether they were newer
 */
export function mergeFacts(item, facts) {
  const lagMs = Date.parse(item.server_time) - Date.parse(facts.server_time);
  if (lagMs > 0 && lagMs < OVERTAKEN_MS_MAX) return false;
  const { item_id: _, ...news } = facts;
  Object.assign(item, news);
  // A `state` event carries no count; the stock event beside it may come a moment later.
  if (facts.state === 'sold_out' && facts.available === undefined) item.available = 0;
  return true;
}

/** The moment an item's countdown runs to, and its label. @param {object} item */
export function nextMoment(item) {
  const state = stateOf(item);
  return {
    state,
    atMs: Date.parse(state === 'upcoming' ? item.starts_at : item.ends_at),
    label: text(`countdown.${state === 'paused' ? 'open' : state}`),
  };
}

/** A small label for the state. @returns {{element: HTMLElement, draw: (state: string) => void}} */
export function stateChip() {
  const element = el('span', { class: 'chip' });
  return {
    element,
    draw(state) {
      setText(element, text(`state.${state}`));
      element.dataset.state = state;
    },
  };
}

/** `2 days 04:12:33`. @param {number} atMs server time @returns {string} */
export function countdownText(atMs) {
  const { days, clock } = countdown(atMs - serverNowMs());
  return days > 0 ? `${text('countdown.days', { count: days })} ${clock}` : clock;
}

/** The stock as a ruler with a number. @returns {{element: HTMLElement, draw: (item: object) => void}} */
export function stockRuler() {
  const number = el('p', { class: 'stock-text' });
  const bar = el('div', { class: 'ruler', role: 'meter', 'aria-label': text('stock.label'), 'aria-valuemin': '0' });
  return {
    element: el('div', { class: 'stock' }, bar, number),
    draw(item) {
      const share = item.total > 0 ? Math.max(0, item.available) / item.total : 0;
      const available = Math.max(0, item.available);
      const words = { available: count(available), total: count(item.total) };
      setText(number, available > 0 ? text('stock.left', words) : text('stock.gone', words));
      bar.style.setProperty('--share', `${(share * 100).toFixed(2)}%`);
      bar.classList.toggle('low', share <= LOW_SHARE && stateOf(item) !== 'ended');
      bar.setAttribute('aria-valuemax', String(item.total));
      bar.setAttribute('aria-valuenow', String(available));
      bar.setAttribute('aria-valuetext', number.textContent);
    },
  };
}
