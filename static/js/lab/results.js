/**
 * The table of results. The exported report has the same one.
 */
import { el } from '../dom.js';
import { count } from '../format.js';
import { text } from '../strings.js';

/** Column, and how a lane fills it. Numbers stand to the right. */
const COLUMNS = [
  ['strategy', (lane) => lane.strategy],
  ['arbiter', (lane) => text(`lab.arbiter.short.${lane.arbiter}`)],
  ['accepted', (lane) => count(lane.accepted)],
  ['refused', (lane) => count(lane.refused)],
  ['others', (lane) => count(lane.unavailable + lane.unknown)],
  ['oversold', (lane) => count(lane.oversold)],
  ['undersold', (lane) => count(lane.undersold)],
  ['lost', (lane) => count(lane.lost + lane.phantom + lane.duplicates)],
  ['stopped', (lane) => count(lane.arbiter_refusals)],
  ['rate', (lane) => count(Math.round(lane.accepted_per_second))],
  ['median', (lane) => latency(lane, 'p50')],
  ['tail', (lane) => latency(lane, 'p99')],
  ['verdict', (lane) => text(`lab.verdict.short.${lane.verdict ?? lane.state}`)],
];
const WORDS = ['strategy', 'arbiter', 'verdict'];

/**
 * @param {object[]} lanes as the server tells them
 * @returns {HTMLTableElement}
 */
export function resultsTable(lanes) {
  const several = lanes.some((lane) => lane.round > 1);
  const heads = COLUMNS.map(([name]) =>
    el('th', { scope: 'col', class: WORDS.includes(name) ? null : 'number', text: text(`lab.column.${name}`) }),
  );
  const rows = lanes.map((lane) => {
    const cells = COLUMNS.map(([name, fill]) => cell(lane, name, several && name === 'strategy' ? `${fill(lane)} · ${lane.round}` : fill(lane)));
    return el('tr', { 'data-verdict': lane.verdict ?? lane.state }, ...cells);
  });
  return el('table', {}, el('caption', { class: 'unseen', text: text('lab.results') }), el('thead', {}, el('tr', {}, ...heads)), el('tbody', {}, ...rows));
}

function cell(lane, name, words) {
  if (name === 'strategy') return el('th', { scope: 'row', class: 'code', text: words });
  const bad =
    (name === 'oversold' && lane.oversold > 0) ||
    (name === 'undersold' && lane.undersold > 0) ||
    (name === 'lost' && words !== '0') ||
    (name === 'verdict' && ['oversold', 'lost', 'inconsistent', 'undersold'].includes(lane.verdict));
  const good = name === 'verdict' && lane.verdict === 'clean';
  const tone = bad ? ' bad' : good ? ' good' : '';
  return el('td', { class: `${WORDS.includes(name) ? '' : 'number'}${tone}`, text: words });
}

function latency({ latency_ms, state }, name) {
  const value = latency_ms?.[name];
  return state !== 'done' || value === null || value === undefined ? '–' : value.toFixed(1);
}
