/**
 * One lane of a run: a strategy selling its stock, live.
 *
 * The ruler is the picture of the whole lab: it fills with what was sold; the mark on it is the
 * stock there was; what is beyond the mark, in red, was sold and never existed.
 */
import { lineChart } from '../chart.js';
import { safeChip } from '../desk.js';
import { el, setText } from '../dom.js';
import { count } from '../format.js';
import { text } from '../strings.js';

/** Rates are taken over at least this long: over less they jump. */
const RATE_SPAN_MS = 250;

/** @param {object} first the lane as the server tells it */
export function createLane(first) {
  let lane = first;
  let lastRate = { atMs: 0, accepted: 0 };
  const big = el('p', { class: 'lane-big digits' });
  const unit = el('p', { class: 'lane-unit' });
  const sold = el('div', { class: 'ruler' });
  const beyond = el('div', { class: 'ruler beyond' });
  const mark = el('div', { class: 'lane-mark' });
  const track = el('div', { class: 'lane-track', 'aria-hidden': 'true' }, sold, beyond, mark);
  const state = el('span', { class: 'lane-state' });
  const facts = el('p', { class: 'lane-facts digits' });
  const verdict = el('p', { class: 'lane-verdict' });
  const remark = el('p', { class: 'hint' });
  const timeText = (ms) => text('lab.seconds', { seconds: (ms / 1000).toFixed(1) });
  const stockChart = lineChart({
    label: text('lab.stockChart'),
    timeText,
    series: [
      { name: text('lab.left'), tone: 'ink' },
      { name: text('lab.oversold'), tone: 'hot' },
    ],
  });
  const rateChart = lineChart({ label: text('lab.rateChart'), timeText, series: [{ name: text('lab.perSecond'), tone: 'good' }] });
  const name = el('h3', { class: 'code', text: lane.strategy });
  const chips = [safeChip(lane.safe), el('span', { class: 'chip', text: text(`lab.arbiter.${lane.arbiter}`) })];
  if (lane.round > 1) chips.push(el('span', { class: 'chip', text: text('lab.round', { round: lane.round }) }));
  const element = el(
    'li',
    { class: 'lane', 'data-lane': lane.index },
    el('div', { class: 'lane-head' }, name, state),
    el('p', { class: 'lane-chips' }, ...chips),
    big,
    unit,
    track,
    facts,
    stockChart.element,
    rateChart.element,
    verdict,
    remark,
  );
  // Of a lane that ended before this page came, only the end is known.
  element.classList.toggle('no-series', !['waiting', 'running'].includes(lane.state));
  stockChart.add(0, [lane.stock, 0]);
  rateChart.add(0, [0]);

  function addPoint(last) {
    stockChart.add(lane.elapsed_ms, [lane.available, lane.oversold]);
    const spanMs = lane.elapsed_ms - lastRate.atMs;
    if (spanMs < (last ? 1 : RATE_SPAN_MS)) return;
    rateChart.add(lane.elapsed_ms, [((lane.accepted - lastRate.accepted) * 1000) / spanMs]);
    lastRate = { atMs: lane.elapsed_ms, accepted: lane.accepted };
  }

  function draw(scale) {
    element.dataset.state = lane.state;
    element.dataset.verdict = lane.verdict ?? '';
    element.dataset.oversold = String(lane.oversold > 0);
    setText(state, text(`lab.state.${lane.state}`));
    setText(big, lane.oversold > 0 ? `+${count(lane.oversold)}` : count(Math.max(0, lane.available)));
    setText(unit, lane.oversold > 0 ? text('lab.unitsOversold') : text('lab.unitsLeft', { total: count(lane.stock) }));
    const whole = scale * lane.stock;
    const percent = (units) => `${((100 * units) / whole).toFixed(2)}%`;
    track.style.setProperty('--stock', percent(lane.stock));
    sold.style.setProperty('--share', percent(Math.min(lane.sold, lane.stock)));
    beyond.style.setProperty('--from', percent(lane.stock));
    beyond.style.setProperty('--share', percent(Math.max(lane.stock, lane.sold)));
    const words = { accepted: count(lane.accepted), refused: count(lane.refused), others: count(lane.unavailable + lane.unknown) };
    setText(facts, text('lab.facts', words));
    const ended = ['done', 'failed', 'skipped'].includes(lane.state);
    setText(verdict, ended ? verdictText(lane) : '');
    setText(remark, ended ? remarkOf(lane) : '');
  }

  return {
    element,
    draw,
    charts: { stock: stockChart, rate: rateChart },
    /** How far beyond its stock it sold: 1 is exactly its stock. */
    reach: () => Math.max(1, lane.sold / Math.max(1, lane.stock)),
    lane: () => lane,
    /** News of the server. @param {object} news */
    take(news) {
      // While the ledger is being audited, its figures are not there yet.
      const fresh = news.state === 'auditing' ? { state: news.state } : news;
      const ended = fresh.state === 'done' && lane.state !== 'done';
      const grew = fresh.elapsed_ms > lane.elapsed_ms;
      lane = { ...lane, ...fresh };
      if (grew || ended) addPoint(ended);
    },
  };
}

/** What a reader should know beside the verdict. */
function remarkOf({ as_declared, note, state, verdict, violations }) {
  const said = as_declared === false ? text('lab.notDeclared') : '';
  // That too many were sold stands above it already.
  const violation = verdict === 'oversold' ? '' : (violations[0] ?? '');
  return [said, state === 'done' ? note : '', violation].filter((part) => part !== '').join(' ');
}

/** The end of a lane in a sentence. @param {object} lane */
export function verdictText(lane) {
  if (lane.state === 'skipped' || lane.state === 'failed') return lane.note || text(`lab.state.${lane.state}`);
  const words = { sold: count(lane.sold), stock: count(lane.stock), oversold: count(lane.oversold), undersold: count(lane.undersold), lost: count(lane.lost) };
  return text(`lab.verdict.${lane.verdict}`, words);
}
