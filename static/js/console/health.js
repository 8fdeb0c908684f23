/**
 * The service itself: what it leans on, and what its background jobs did last.
 */
import { get } from '../api.js';
import { serverNowMs } from '../clock.js';
import { reason } from '../desk.js';
import { byId, el, setText } from '../dom.js';
import { text } from '../strings.js';

const PERIOD_MS = 5_000;

/** Look now and then, for as long as the page is there. */
export async function watchHealth() {
  try {
    // The body of `/readyz`, which proxies hide.
    if (!document.hidden) draw(await get('/api/admin/health'));
  } catch (error) {
    setText(byId('health-status'), reason(error));
  }
  setTimeout(watchHealth, PERIOD_MS);
}

function draw({ status, dependencies, jobs }) {
  setText(byId('health-status'), text('health.status', { status }));
  const needs = Object.entries(dependencies).map(([name, state]) => entry(name, state === 'ok', state, ''));
  byId('dependencies').replaceChildren(...needs);
  const done = Object.entries(jobs).map(([name, { ok, said, ended_at }]) => {
    const seconds = Math.max(0, Math.round((serverNowMs() - Date.parse(ended_at)) / 1000));
    return entry(name, ok, said, text('health.ago', { count: seconds }));
  });
  byId('jobs').replaceChildren(...done);
}

function entry(name, ok, said, when) {
  return el(
    'li',
    {},
    el('span', { class: 'chip', 'data-state': ok ? 'paid' : 'unsafe', text: text(ok ? 'health.ok' : 'health.failed') }),
    el('strong', { text: name }),
    el('span', { class: 'hint', text: said }),
    el('span', { class: 'hint digits', text: when }),
  );
}
