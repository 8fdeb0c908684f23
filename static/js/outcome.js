/**
 * The panel under the Buy button: what is happening to the purchase, in a buyer's words.
 */
import { ATTEMPTS_MAX } from './buy.js';
import { everySecond, serverNowMs } from './clock.js';
import { el, setText } from './dom.js';
import { money, shortSpan } from './format.js';
import { lineFacts } from './line-facts.js';
import { explain, text } from './strings.js';

/**
 * @param {HTMLElement} panel a live region that is empty to begin with
 * @param {{item: () => object, again: () => void, leave?: () => void, named?: boolean}} options `again` repeats the same
 *   request, `leave` leaves the line; with `named` a refusal names the item
 */
export function outcomePanel(panel, { item, again, leave, named = false }) {
  let stopTicking = () => {};
  /** @type {ReturnType<typeof lineFacts>} */
  let inLine;

  function show(tone, title, detail, ...actions) {
    stopTicking();
    stopTicking = () => {};
    const buttons = actions.filter(Boolean);
    panel.dataset.tone = tone;
    panel.replaceChildren(el('h2', { text: title }), el('p', { text: detail }));
    if (buttons.length > 0) panel.append(el('div', { class: 'actions' }, ...buttons));
    panel.hidden = false;
  }

  /** Keep the time to pay going. Unspoken: screen readers would be told every second. */
  function keepCounting(atMs, sentence) {
    const [title, place] = panel.querySelectorAll('h2, p');
    place.setAttribute('aria-live', 'off');
    stopTicking = everySecond((nowMs) => {
      if (nowMs < atMs) return setText(place, sentence(atMs - nowMs));
      panel.dataset.tone = 'wait';
      setText(title, text('order.pendingLate'));
      setText(place, text('order.pendingLateText'));
    });
  }

  const ordersLink = () => el('a', { class: 'button quiet', href: '/orders.html', text: text('outcome.orders') });
  const againButton = () => el('button', { class: 'button', type: 'button', text: text('buy.again'), onClick: again });

  function bought(order) {
    const address = `/order.html?id=${encodeURIComponent(order.id)}`;
    if (order.status !== 'pending') {
      const detail = order.status === 'paid' ? text('outcome.soldPaid') : text(`order.${order.status}Text`);
      show(
        order.status === 'paid' ? 'good' : 'bad',
        text(`order.${order.status}`),
        detail,
        el('a', { class: 'button', href: address, text: text('outcome.see') }),
      );
      return;
    }
    const atMs = Date.parse(order.expires_at);
    const isFree = order.amount_cents === 0;
    const sentence = (leftMs) => text(isFree ? 'outcome.freeText' : 'outcome.soldText', { time: shortSpan(leftMs) });
    const pay = el('a', {
      class: 'button',
      href: address,
      text: text(isFree ? 'outcome.free' : 'outcome.pay', { amount: money(order.amount_cents, order.currency) }),
    });
    show('good', text('outcome.sold'), sentence(atMs - serverNowMs()), pay, ordersLink());
    keepCounting(atMs, sentence);
  }

  function refused({ kind, code, retryAfterMs }) {
    if (kind === 'unknown') {
      show('wait', text('outcome.unknown'), text('outcome.unknownText'), againButton(), ordersLink());
      return;
    }
    const limits = { limit: item().per_buyer_limit ?? '', group: item().limit_group?.per_buyer_limit ?? '' };
    const { title: reason, detail } = explain(code, limits);
    const title = item().name === undefined || !named ? reason : text('cart.refusedLine', { name: item().name, reason });
    if (kind === 'unavailable') {
      // With a pause asked for, the Buy button itself counts it down.
      if (retryAfterMs > 0) show('wait', title, text('outcome.tryIn'));
      else show('wait', title, text('outcome.tryLater'), againButton());
      return;
    }
    const toOrders = ['limit_reached', 'group_limit_reached', 'idempotency_key_reused'].includes(code);
    show('bad', title, detail, toOrders && ordersLink());
  }

  return {
    /** Show where the purchase stands. @param {import('./buy.js').PurchaseState} state */
    draw(state) {
      if (state.phase === 'idle') {
        panel.hidden = true;
      } else if (state.phase === 'line') {
        if (panel.dataset.tone !== 'line' || panel.hidden) {
          show('line', text('line.title'), text('line.next'));
          inLine = lineFacts(panel, { item, leave });
        }
        if (state.standing !== null) inLine.draw(state.standing);
      } else if (state.phase === 'sending') {
        // The first wording stays while we repeat: flicker would read as progress.
        if (state.attempt > 1) return;
        const name = state.resumed ? 'resuming' : 'sending';
        show('wait', text(`attempt.${name}`), text(`attempt.${name}Text`));
      } else if (state.phase === 'waiting') {
        const progress = text('attempt.count', { attempt: state.attempt + 1, attempts: ATTEMPTS_MAX });
        show(
          'wait',
          explain(state.code).title,
          `${text('attempt.retry', { count: Math.ceil(state.waitMs / 1000) })}. ${progress}`,
        );
      } else if (state.outcome.kind === 'sold' || state.outcome.kind === 'queued') {
        bought(state.outcome.order);
        panel.querySelector('a')?.focus({ preventScroll: true });
      } else if (state.outcome.kind !== 'sign_in') {
        refused(state.outcome);
      }
    },
    /** An attempt of an earlier visit has no answer. */
    drawUnfinished() {
      show('wait', text('attempt.pending'), text('attempt.pendingText'), ordersLink());
    },
    /** The reason of the last refusal no longer holds. */
    clear() {
      stopTicking();
      panel.hidden = true;
      panel.replaceChildren();
    },
  };
}
