/**
 * Every sentence a buyer reads, in one table per language.
 *
 * To add a language: copy `english`, translate the values, and list the copy in `tables` under its
 * language code (`zh: chinese`). A missing key falls back to English. `{name}` is replaced by a
 * parameter; an entry with `one` and `other` is chosen by the plural rule for `count`.
 * The English in the HTML files is only what is shown before the scripts run.
 */
const english = {
  'nav.sales': 'Sales',
  'nav.orders': 'My orders',
  'nav.signIn': 'Sign in',
  'nav.signOut': 'Sign out',
  'nav.skip': 'Skip to content',
  'nav.signedInAs': 'Signed in as {name}',
  'foot.promise': 'Every unit is counted in one ledger. What you see is what is left.',
  'foot.clock': 'Shop clock',
  'foot.api': 'API',

  'title.index': 'Seckill: today’s flash sales',
  'title.item': '{name} · Seckill',
  'title.order': 'Your order · Seckill',
  'title.orders': 'My orders · Seckill',
  'title.signIn': 'Sign in · Seckill',
  'title.missing': 'Not found · Seckill',

  'index.heading': 'Flash sales',
  'index.open': 'On sale now',
  'index.upcoming': 'Coming up',
  'index.gone': 'Gone',
  'index.heroUpcoming': '{name} opens in',
  'index.heroOpen': '{name} closes in',
  'index.heroPaused': '{name} is paused',
  'index.heroNone': 'No sale on the clock',
  'index.heroGo': 'Go to the sale',
  'index.heroWatch': 'Wait there',
  'index.empty': 'There is nothing on sale at the moment.',
  'index.emptyHint': 'This page refreshes by itself: leave it open and the next sale appears here.',
  'index.failed': 'The sales could not be loaded.',
  'index.failedHint': 'We keep trying every few seconds.',

  'state.open': 'On sale',
  'state.upcoming': 'Upcoming',
  'state.sold_out': 'Sold out',
  'state.ended': 'Ended',
  'state.paused': 'Paused',
  'countdown.upcoming': 'Opens in',
  'countdown.open': 'Ends in',
  'countdown.sold_out': 'Ends in',
  'countdown.ended': 'Ended',
  'countdown.days': { one: '{count} day', other: '{count} days' },
  'stock.left': '{available} of {total} left',
  'stock.gone': 'None of {total} left',
  'stock.label': 'Stock left',
  'stock.announce': { one: '{count} left', other: '{count} left' },

  'item.quantity': 'Quantity',
  'item.fewer': 'One fewer',
  'item.more': 'One more',
  'item.limit': 'Limit per buyer',
  'item.noLimit': 'None',
  'item.hold': 'Time to pay',
  'item.window': 'Sale',
  'item.windowText': '{from} to {to}',
  'item.missing': 'This item does not exist',
  'item.missingText': 'It may have been taken down, or the address is mistyped.',
  'item.backToSales': 'See today’s sales',
  'item.loadFailed': 'The item could not be loaded. Trying again…',
  'item.nowOpen': 'The sale is open.',
  'item.nowSoldOut': 'Sold out just now.',
  'item.returnsHint':
    'Units that are not paid for in time come back. Stay on this page: the button wakes up when one does.',
  'item.mine': { one: 'You have {count} order of this item', other: 'You have {count} orders of this item' },
  'item.mineEntry': '{status}: {quantity} for {amount}',

  'buy.buy': 'Buy for {amount}',
  'buy.signIn': 'Sign in to buy',
  'buy.upcoming': 'Opens in {time}',
  'buy.sold_out': 'Sold out',
  'buy.ended': 'Sale ended',
  'buy.paused': 'Sale paused',
  'buy.limit': { one: 'You already have yours', other: 'You have reached the limit of {count}' },
  'buy.sending': 'Placing your order…',
  'buy.waiting': 'Asking again…',
  'buy.tryIn': { one: 'Try again in {count} second', other: 'Try again in {count} seconds' },
  'buy.again': 'Ask again',

  'attempt.sending': 'Placing your order…',
  'attempt.sendingText': 'Keep this page open. Pressing twice or reloading never buys twice.',
  'attempt.resuming': 'Checking your last attempt…',
  'attempt.resumingText':
    'The page closed before the answer came. We are asking again with the same request, so it cannot buy twice.',
  'attempt.pending': 'Your last attempt had no answer yet',
  'attempt.pendingText': 'Press Buy to find out. It repeats the same request, so it cannot buy twice.',
  'attempt.retry': { one: 'Asking again in {count} second', other: 'Asking again in {count} seconds' },
  'attempt.retryNow': 'Asking again…',
  'attempt.count': 'Try {attempt} of {attempts}. The same request each time: it never buys twice.',

  'outcome.sold': 'It’s yours',
  'outcome.soldText': 'Held in your name. Pay within {time} to keep it.',
  'outcome.soldPaid': 'You already bought and paid for this.',
  'outcome.pay': 'Pay {amount}',
  'outcome.see': 'See the order',
  'outcome.orders': 'See my orders',
  'outcome.unknown': 'We don’t know yet whether you got it',
  'outcome.unknownText':
    'The answer did not reach us. Ask again: the same request cannot buy twice, and it tells what happened.',
  'outcome.tryLater': 'Nothing was bought. You can try again.',
  'outcome.tryIn': 'Nothing was bought. The shop asks for a short break; the button counts it down.',

  'code.sold_out': 'Sold out',
  'code.sold_out.text': 'There were not enough units left. Nothing was bought.',
  'code.limit_reached': 'You have reached the limit',
  'code.limit_reached.text': 'Each buyer may have {limit} of this item, unpaid orders included.',
  'code.sale_not_started': 'Not open yet',
  'code.sale_not_started.text': 'The sale opens by the shop’s clock. Nothing was bought.',
  'code.sale_ended': 'The sale has ended',
  'code.sale_ended.text': 'Nothing was bought.',
  'code.sale_paused': 'The sale is paused',
  'code.sale_paused.text': 'The shop has stopped selling for a moment. The button comes back when it resumes.',
  'code.request_in_progress': 'Your order is still being decided',
  'code.request_in_progress.text': 'An earlier press is on its way. We are waiting for its answer.',
  'code.rate_limited': 'Too many requests from you',
  'code.rate_limited.text': 'Take a breath; nothing was bought.',
  'code.overloaded': 'Very busy right now',
  'code.overloaded.text': 'More buyers than the shop can serve this second. Nothing was bought.',
  'code.contended': 'Many buyers at once',
  'code.contended.text': 'Your turn did not come in time. Nothing was bought.',
  'code.strategy_unavailable': 'This sale is not available right now',
  'code.strategy_unavailable.text': 'A part of the shop that it needs is down. Nothing was bought.',
  'code.dependency_unavailable': 'The shop has a hiccup',
  'code.dependency_unavailable.text': 'A part of the shop is down. Nothing was bought.',
  'code.outcome_unknown': 'Still waiting for the answer',
  'code.outcome_unknown.text': 'Your order may have gone through. We are asking again with the same request.',
  'code.network': 'Connection lost',
  'code.network.text': 'The shop did not answer. We are asking again with the same request.',
  'code.unauthenticated': 'Please sign in',
  'code.unauthenticated.text': 'Nothing was bought. Sign in and you come back here.',
  'code.invalid_token': 'Please sign in again',
  'code.invalid_token.text': 'Your session is no longer valid.',
  'code.token_expired': 'Please sign in again',
  'code.token_expired.text': 'Your session has ended.',
  'code.forbidden': 'This account may not do that',
  'code.forbidden.text': 'Nothing was bought.',
  'code.account_blocked': 'This account is blocked',
  'code.account_blocked.text': 'Nothing was bought.',
  'code.cross_site_request': 'The request came from another site',
  'code.cross_site_request.text': 'It was refused for your safety. Open the shop directly and try again.',
  'code.unsafe_strategy': 'This sale is set up wrongly',
  'code.unsafe_strategy.text': 'The shop refused to sell in an unsafe way. Nothing was bought.',
  'code.item_not_found': 'This item no longer exists',
  'code.item_not_found.text': 'Nothing was bought.',
  'code.strategy_not_found': 'This sale is set up wrongly',
  'code.strategy_not_found.text': 'Nothing was bought.',
  'code.order_not_found': 'No such order',
  'code.order_not_found.text': 'It does not exist, or it belongs to another account.',
  'code.order_state_conflict': 'The order has changed meanwhile',
  'code.order_state_conflict.text': 'Nothing was changed. This is how it stands now.',
  'code.quantity_out_of_range': 'That quantity is not possible',
  'code.quantity_out_of_range.text': 'Choose between 1 and the limit. Nothing was bought.',
  'code.quantity_over_limit': 'That is more than one buyer may have',
  'code.quantity_over_limit.text': 'The limit is {limit} for each buyer. Nothing was bought.',
  'code.idempotency_key_reused': 'Your last attempt was for another quantity',
  'code.idempotency_key_reused.text': 'Nothing was bought now. Look at your orders before you try again.',
  'code.username_taken': 'That name is taken. Choose another, or sign in if it is yours.',
  'code.invalid_username': 'Use 1 to 32 letters, digits, dots, dashes or underscores.',
  'code.invalid_password': 'That password cannot be used. It needs at least 8 characters.',
  'code.invalid_credentials': 'Name and password do not match.',
  'code.too_many_attempts': 'Too many attempts',
  'code.too_many_attempts.text': 'Wait a little and try again.',
  'code.internal': 'Something broke on our side',
  'code.internal.text': 'It has been noted. Nothing was bought; you can try again.',
  'code.internal_error': 'Something broke on our side',
  'code.internal_error.text': 'We are asking again with the same request, so it cannot buy twice.',
  'code.other': 'That did not work',
  'code.other.text': 'Nothing was bought. ({code})',

  'order.heading': 'Your order',
  'order.loading': 'Fetching your order…',
  'order.missing': 'No such order',
  'order.missingText': 'It does not exist, or it belongs to another account.',
  'order.signIn': 'Sign in to see this order',
  'order.queued': 'In the queue',
  'order.queuedText': 'Your order is taken and waits for its turn. This page tells you the moment it is decided.',
  'order.pending': 'Held for you',
  'order.pendingText': 'Pay before the clock runs out and it stays yours.',
  'order.pendingLate': 'Time is up',
  'order.pendingLateText': 'The shop is checking the hold. Paying still works as long as a unit is left.',
  'order.paid': 'Paid',
  'order.paidText': 'Thank you. The unit is yours for good.',
  'order.cancelled': 'Cancelled',
  'order.cancelledText': 'You gave it back. Nothing was charged.',
  'order.expired': 'The hold ran out',
  'order.expiredText':
    'It was not paid in time, so the stock went back. If a unit is left you can still pay and have it.',
  'order.rejected': 'Not this time',
  'order.rejectedText': 'The stock was gone when your turn came. Nothing was charged.',
  'order.timeLeft': 'Time left to pay',
  'order.pay': 'Pay {amount}',
  'order.payLate': 'Try to pay {amount}',
  'order.paying': 'Paying…',
  'order.cancel': 'Cancel the order',
  'order.cancelling': 'Cancelling…',
  'order.cancelAsk': 'Give it back?',
  'order.cancelAskText': 'The unit goes to the next buyer at once. You may not get it again.',
  'order.cancelYes': 'Cancel the order',
  'order.cancelNo': 'Keep it',
  'order.payUnknown': 'The answer did not reach us. Asking again is safe: you are charged once at most.',
  'order.payRefused': 'Sold out meanwhile. Nothing was charged.',
  'order.demo': 'This shop takes no real money: paying is one click.',
  'order.quantity': 'Quantity',
  'order.amount': 'Total',
  'order.placed': 'Placed',
  'order.paidAt': 'Paid',
  'order.expires': 'Held until',
  'order.strategy': 'Sold by',
  'order.number': 'Order',
  'order.fence': '{strategy}, fence {fence}',
  'order.itemFallback': 'Item {id}',
  'order.seeItem': 'Back to the item',
  'order.offline': 'No connection. This page catches up when it is back.',

  'orders.heading': 'My orders',
  'orders.empty': 'No orders yet.',
  'orders.emptyHint': 'When you buy something it shows up here by itself.',
  'orders.more': 'Older orders',
  'orders.failed': 'Your orders could not be loaded. Trying again…',
  'orders.new': 'New order: {name}',
  'orders.changed': '{name}: {status}',
  'status.queued': 'Queued',
  'status.pending': 'Unpaid',
  'status.paid': 'Paid',
  'status.cancelled': 'Cancelled',
  'status.expired': 'Expired',
  'status.rejected': 'Refused',
  'orders.payWithin': 'Pay within {time}',

  'sign.inHeading': 'Sign in',
  'sign.upHeading': 'Create an account',
  'sign.inTab': 'Sign in',
  'sign.upTab': 'New here',
  'sign.username': 'Name',
  'sign.password': 'Password',
  'sign.passwordHint': 'At least 8 characters.',
  'sign.show': 'Show',
  'sign.hide': 'Hide',
  'sign.inSubmit': 'Sign in',
  'sign.upSubmit': 'Create account and sign in',
  'sign.busy': 'One moment…',
  'sign.usernameMissing': 'Enter your name.',
  'sign.passwordMissing': 'Enter your password.',
  'sign.back': 'You return to where you were.',
  'sign.network': 'The shop did not answer. Try again in a moment.',
  'sign.created': 'The account is made. Sign in with it.',

  'missing.heading': 'Gone in a second',
  'missing.text': 'There is no page at this address.',
};

/** Tables by language code. */
const tables = { en: english };

/** The language in use: the first of the browser's that has a table, else English. */
export const language =
  (navigator.languages ?? ['en']).map((tag) => tag.split('-')[0]).find((code) => code in tables) ?? 'en';

const pluralRules = new Intl.PluralRules(language);

/**
 * One sentence.
 * @param {string} key a key of the table
 * @param {Record<string, string|number>} [parameters] values for `{name}`; `count` chooses the plural
 * @returns {string} the sentence, or the key itself when no table has it
 */
export function text(key, parameters = {}) {
  const entry = tables[language][key] ?? english[key] ?? key;
  const sentence =
    typeof entry === 'string' ? entry : (entry[pluralRules.select(Number(parameters.count))] ?? entry.other);
  return sentence.replace(/\{(\w+)\}/g, (whole, name) => (name in parameters ? String(parameters[name]) : whole));
}

/** Whether the table has this key. @param {string} key @returns {boolean} */
export function hasText(key) {
  return key in english;
}

/**
 * What a refusal code means to a buyer.
 * @param {string} code a `code` of the HTTP contract, or `network`
 * @param {Record<string, string|number>} [parameters]
 * @returns {{title: string, detail: string}}
 */
export function explain(code, parameters = {}) {
  const known = hasText(`code.${code}`) ? code : 'other';
  const detailKey = `code.${known}.text`;
  return {
    title: text(`code.${known}`, parameters),
    detail: hasText(detailKey) ? text(detailKey, { code, ...parameters }) : '',
  };
}
