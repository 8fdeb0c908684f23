/**
 * What to run: the strategies and the crowd.
 */
import { safeChip } from '../desk.js';
import { byId, el, setText } from '../dom.js';
import { count } from '../format.js';
import { text } from '../strings.js';

const NUMBERS = ['stock', 'buyers', 'concurrency', 'quantity', 'rounds'];
const CHOSEN_FIRST = ['mysql-naive', 'mysql-atomic', 'lock-redis', 'redis-lua'];

/** Choices with options of their own, beside those on THE LIST. */
const REFINED = [{ name: 'lock-redis?scope=user', base: 'lock-redis', safe: false, summaryKey: 'lab.scopeUser' }];

/** @type {Map<string, {card: object, box: HTMLInputElement}>} */
const choices = new Map();

/** Fill the two groups of cards. @param {object[]} cards THE LIST */
export function drawChoices(cards) {
  const refined = REFINED.flatMap(({ name, base, safe, summaryKey }) => {
    const card = cards.find((candidate) => candidate.name === base);
    return card === undefined ? [] : [{ ...card, name, safe, summary: text(summaryKey) }];
  });
  const all = [...cards, ...refined];
  for (const card of all) choices.set(card.name, choice(card));
  const group = (safe) => all.filter((card) => card.safe === safe).map(({ name }) => choices.get(name).element);
  byId('unsafe').replaceChildren(...group(false));
  byId('safe').replaceChildren(...group(true));
  byId('picker').addEventListener('change', drawSummary);
  byId('lab-form').addEventListener('input', drawSummary);
  setRun({ strategies: CHOSEN_FIRST });
}

/** Whether all its strategies can run here. @param {{strategies: string[]}} run */
export function canRun({ strategies }) {
  return strategies.every((name) => choices.get(name)?.card.available);
}

/** Put a run into the form. @param {object} run the body of a request, or a part of it */
export function setRun(run) {
  for (const [name, { box }] of choices) box.checked = run.strategies.includes(name) && !box.disabled;
  for (const name of NUMBERS) if (run[name] !== undefined) byId(name).value = String(run[name]);
  if (run.arbiter !== undefined) byId(`arbiter-${run.arbiter}`).checked = true;
  drawSummary();
}

/** What the form says, as the body of a request. */
export function readRun() {
  const strategies = [...choices.values()].filter(({ box }) => box.checked).map(({ box }) => box.value);
  const numbers = NUMBERS.map((name) => [name, Math.trunc(Number(byId(name).value))]);
  const arbiter = document.querySelector('input[name="arbiter"]:checked').value;
  return { strategies, arbiter, ...Object.fromEntries(numbers) };
}

function drawSummary() {
  const { strategies, arbiter, rounds, buyers, stock } = readRun();
  const lanes = strategies.length * (arbiter === 'both' ? 2 : 1) * Math.max(1, rounds);
  setText(byId('run-summary'), text('lab.summary', { count: lanes, buyers: count(buyers), stock: count(stock) }));
  byId('run').setAttribute('aria-disabled', String(strategies.length === 0));
}

function choice(card) {
  const { name, summary, safe, available, breaks_when } = card;
  const box = el('input', { type: 'checkbox', value: name, disabled: !available });
  const element = el(
    'label',
    { class: 'pick', title: breaks_when },
    box,
    el(
      'span',
      { class: 'pick-body' },
      el('span', { class: 'pick-line' }, el('strong', { class: 'code', text: name }), safeChip(safe)),
      el('span', { class: 'hint', text: available ? summary : text('lab.unavailable') }),
    ),
  );
  return { card, box, element };
}
