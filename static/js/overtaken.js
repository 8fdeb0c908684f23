/**
 * Which news of an order comes late: an answer may be read before the change whose event arrives first.
 */
/** An order never goes back to a lower rank. */
const RANKS = { queued: 0, pending: 1, expired: 2, paid: 3, cancelled: 4, rejected: 4 };

/**
 * Whether news of an order was overtaken by what is known.
 * @param {{status: string, extended_seconds?: number|null}} known @param {object} news of the same order
 */
export function isOvertaken(known, news) {
  const ahead = RANKS[known.status] - RANKS[news.status];
  const isExtended = ({ extended_seconds: seconds }) => (seconds ?? null) !== null;
  return ahead > 0 || (ahead === 0 && isExtended(known) && !isExtended(news));
}
