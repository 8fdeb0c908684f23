/**
 * The strategies in the operator's forms: those a real sale may use.
 */
import { fetchStrategies, fillChoice, safeChip } from '../desk.js';
import { byId, el } from '../dom.js';
import { text } from '../strings.js';

/** @type {Map<string, object>} */
const cards = new Map();

/** Fetch the cards and fill both choices. @throws {ApiError} */
export async function loadStrategies() {
  for (const card of await fetchStrategies()) cards.set(card.name, card);
  const usable = [...cards.values()].filter((card) => card.safe && card.available);
  fillChoice(byId('edit-strategy'), usable.map(({ name }) => ({ value: name, words: name })));
  byId('new-strategies').replaceChildren(...usable.map(choice));
}

/** How a strategy decides and what breaks it, in a line. @param {string} name @returns {string} */
export function strategyHint(name) {
  const card = cards.get(name);
  return card === undefined ? '' : `${card.summary} ${text('desk.breaksWhen', { what: card.breaks_when })}`;
}

function choice({ name, summary, safe, store }, place) {
  return el(
    'label',
    { class: 'pick' },
    el('input', { type: 'radio', name: 'strategy', value: name, checked: place === 0 }),
    el(
      'span',
      { class: 'pick-body' },
      el('span', { class: 'pick-line' }, el('strong', { class: 'code', text: name }), safeChip(safe)),
      el('span', { class: 'hint', text: summary }),
      el('span', { class: 'hint', text: text('desk.store', { store }) }),
    ),
  );
}
