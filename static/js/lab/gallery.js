/**
 * Draws the gallery of failure experiments.
 */
import { byId, el } from '../dom.js';
import { text } from '../strings.js';
import { EXPERIMENTS } from './experiments.js';

/**
 * @param {{canRun: (run: object) => boolean, onBreak: (run: object) => void}} options `canRun`: whether
 *   all of its strategies are there
 */
export function drawGallery({ canRun, onBreak }) {
  byId('gallery').replaceChildren(...EXPERIMENTS.map((experiment) => entry(experiment, canRun, onBreak)));
}

function entry({ name, run, failure }, canRun, onBreak) {
  const title = text(`try.${name}`);
  const body = el(
    'li',
    { class: 'try' },
    el('h3', { text: title }),
    el('p', { text: text(`try.${name}.what`) }),
    el('p', { class: 'cure' }, el('strong', { text: `${text('lab.cure')} ` }), text(`try.${name}.cure`)),
  );
  const actions = el('div', { class: 'try-end' });
  if (run !== undefined) {
    const lanes = run.strategies.map((strategy) => el('span', { class: 'code tag', text: strategy }));
    const button = el('button', { class: 'button break', type: 'button', text: text('lab.break'), onClick: () => onBreak(run) });
    // What a screen reader reads out of context, ten times on the page.
    button.setAttribute('aria-label', `${text('lab.break')}: ${title}`);
    button.setAttribute('aria-disabled', String(!canRun(run)));
    actions.append(el('p', { class: 'try-lanes' }, ...lanes), button);
  } else {
    actions.append(el('p', { class: 'hint', text: text('lab.inTerminal') }), el('code', { text: `make compare ARGS="break --only ${failure}"` }));
  }
  body.append(actions);
  return body;
}
