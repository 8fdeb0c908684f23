/**
 * What a buyer in line is told: the place, how long it will take and why, and what is left.
 */
import { announce, el, setText } from './dom.js';
import { count, shortSpan } from './format.js';
import { text } from './strings.js';

/** The line is spoken at most this often: it moves faster than speech. */
const SPEAK_MS_MIN = 30_000;

/**
 * @param {HTMLElement} panel has a title and a sentence
 * @param {{item: () => any, leave: () => void}} options
 */
export function lineFacts(panel, { item, leave }) {
  const sentence = panel.querySelector('p');
  // The announcer speaks instead, now and then.
  sentence.setAttribute('aria-live', 'off');
  const facts = el('dl', { class: 'facts line-facts', 'aria-live': 'off' });
  const out = el('button', { class: 'button quiet', type: 'button', text: text('line.leave'), onClick: leave });
  panel.append(facts, el('div', { class: 'actions' }, out));
  let spokenAtMs = -SPEAK_MS_MIN;
  let spokenState = '';

  function row(name, value) {
    return value === null ? null : el('div', {}, el('dt', { text: text(name) }), el('dd', { text: value }));
  }

  /** @param {any} standing the answer of `POST /api/items/{id}/ticket` */
  function draw(standing) {
    const { number, position, people, available } = standing;
    const state = standing.drawing ? 'drawing' : standing.estimate_basis === 'opening' ? 'early' : 'waiting';
    setText(sentence, sentenceOf(state, standing));
    facts.replaceChildren(
      ...[
        row('line.number', number === null ? null : count(number)),
        row(state === 'waiting' ? 'line.ahead' : 'line.here', count(state === 'waiting' ? position : people)),
        row('line.wait', state === 'waiting' ? waitOf(standing, item().paused) : null),
        row('line.left', count(available)),
      ].filter(Boolean),
    );
    // On a phone the panel lies below the visible part of the page.
    if (spokenState === '') panel.scrollIntoView({ block: 'nearest' });
    if (state !== spokenState || performance.now() - spokenAtMs > SPEAK_MS_MIN) {
      spokenState = state;
      spokenAtMs = performance.now();
      announce(sentence.textContent);
    }
  }

  return { draw };
}

function sentenceOf(state, { position }) {
  if (state !== 'waiting') return text(`line.${state}`);
  return position > 0 ? text('line.position', { count: position }) : text('line.next');
}

/** How long it will take, and what that follows from. */
function waitOf({ estimate_ms: ms, estimate_basis: basis }, isPaused) {
  if (ms === null) return text(isPaused ? 'line.paused' : 'line.noEstimate');
  return text(basis === 'exits' ? 'line.byExits' : 'line.byRate', { time: shortSpan(ms) });
}
