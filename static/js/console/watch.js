/**
 * One sale, watched: figures, moving charts, and refusals by reason.
 *
 * The ledger's figures are everyone's. Outcomes are counted by the instance that answers, so rates
 * are taken only between two answers of the same one.
 */
import { get } from '../api.js';
import { lineChart } from '../chart.js';
import { byId, el, setText } from '../dom.js';
import { count } from '../format.js';
import { hasText, text } from '../strings.js';

const PERIOD_MS = 1_000;
const WINDOW_MS = 120_000;
const ACCEPTED = ['sold', 'queued', 'replayed'];

/**
 * Watch an item until `stop` is called.
 * @param {number} itemId
 * @returns {{stop: () => void}}
 */
export function watchSale(itemId) {
  const charts = makeCharts();
  byId('charts').replaceChildren(...Object.values(charts).map((chart) => chart.element));
  let last = null;
  let timer = 0;
  let stopped = false;

  async function look() {
    try {
      if (!document.hidden) take(await get(`/api/admin/items/${itemId}/live`));
      byId('figures').classList.remove('stale');
    } catch {
      byId('figures').classList.add('stale');
    }
    if (!stopped) timer = setTimeout(look, PERIOD_MS);
  }

  function take(live) {
    if (stopped) return;
    const atMs = Date.parse(live.server_time);
    const accepted = sum(live.purchases, (code) => ACCEPTED.includes(code));
    const refused = sum(live.purchases, (code) => !ACCEPTED.includes(code));
    const units = (status) => live.orders[status]?.units ?? 0;
    const now = { atMs, accepted, refused, arbiter: live.arbiter_refusals, instance: live.instance };
    const spanMs = last === null || last.instance !== now.instance ? 0 : atMs - last.atMs;
    const rate = (name) => (spanMs > 0 ? ((now[name] - last[name]) * 1_000) / spanMs : null);
    const rates = { accepted: rate('accepted'), refused: rate('refused'), arbiter: rate('arbiter') };
    last = now;
    charts.flow.add(atMs, [rates.accepted, rates.refused]);
    charts.stock.add(atMs, [live.available, units('pending'), units('paid')]);
    charts.guard.add(atMs, [rates.arbiter, live.drift]);
    const figures = {
      available: text('watch.of', { part: count(live.available), whole: count(live.total) }),
      accepted: perSecond(rates.accepted),
      refused: perSecond(rates.refused),
      held: count(units('pending')),
      paid: count(units('paid')),
      waiting: text('watch.offeredAndWaiting', { offered: count(live.offered), waiting: count(live.waiting) }),
      arbiter: count(live.arbiter_refusals),
      drift: live.drift === null ? text('watch.noCounter') : count(live.drift),
    };
    for (const [name, words] of Object.entries(figures)) setText(byId(`figure-${name}`), words);
    byId('figure-drift').classList.toggle('odd', live.drift !== null && live.drift !== 0);
    drawReasons(live.purchases);
  }

  look();
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

function makeCharts() {
  const timeText = (ms) => (ms === 0 ? text('watch.now') : text('watch.secondsAgo', { count: Math.round(-ms / 1000) }));
  const chart = (name, series) =>
    lineChart({
      label: text(`watch.${name}`),
      windowMs: WINDOW_MS,
      timeText,
      series: series.map(([key, tone]) => ({ name: text(`watch.${key}`), tone })),
    });
  return {
    flow: chart('flow', [
      ['accepted', 'good'],
      ['refused', 'hot'],
    ]),
    stock: chart('stock', [
      ['available', 'ink'],
      ['held', 'tag'],
      ['paid', 'good'],
    ]),
    guard: chart('guard', [
      ['arbiter', 'hot'],
      ['drift', 'muted'],
    ]),
  };
}

function drawReasons(purchases) {
  const rows = Object.entries(purchases).sort(([, a], [, b]) => b - a);
  const most = Math.max(1, ...rows.map(([, number]) => number));
  byId('no-reasons').hidden = rows.length > 0;
  const drawn = rows.map(([code, number]) => {
    const bar = el('div', { class: `ruler ${ACCEPTED.includes(code) ? '' : 'low'}`, 'aria-hidden': 'true' });
    bar.style.setProperty('--share', `${(number / most) * 100}%`);
    return el(
      'li',
      {},
      el('span', { title: code, text: nameOf(code) }),
      el('span', { class: 'digits', text: count(number) }),
      bar,
    );
  });
  byId('reasons').replaceChildren(...drawn);
}

function nameOf(code) {
  if (hasText(`watch.outcome.${code}`)) return text(`watch.outcome.${code}`);
  return hasText(`code.${code}`) ? text(`code.${code}`) : code;
}

function sum(purchases, wanted) {
  return Object.entries(purchases).reduce((total, [code, number]) => total + (wanted(code) ? number : 0), 0);
}

function perSecond(rate) {
  return rate === null ? '–' : count(Math.round(rate));
}
