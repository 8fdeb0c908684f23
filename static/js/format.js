/**
 * Money, counts and times as people read them. The only page file that knows the currency: change it
 * together with the setting `payment.currency`.
 */
import { languageTag } from './strings.js';

const CURRENCY = 'USD';
const moneyFormat = new Intl.NumberFormat(languageTag, { style: 'currency', currency: CURRENCY });
const countFormat = new Intl.NumberFormat(languageTag);
const dateTimeFormat = new Intl.DateTimeFormat(languageTag, { dateStyle: 'medium', timeStyle: 'short' });
const timeFormat = new Intl.DateTimeFormat(languageTag, { timeStyle: 'short' });

/** Integer cents as money. @param {number} cents @returns {string} such as `$19.90` */
export function money(cents) {
  return moneyFormat.format(cents / 100);
}

/** A whole number with separators. @param {number} value @returns {string} */
export function count(value) {
  return countFormat.format(value);
}

/** An RFC 3339 time in the reader's own zone. @param {string} instant @returns {string} */
export function dateTime(instant) {
  return dateTimeFormat.format(new Date(instant));
}

/**
 * The sale window, the day named once when both ends share it.
 * @param {string} from RFC 3339 @param {string} to RFC 3339
 * @returns {{from: string, to: string}}
 */
export function saleWindow(from, to) {
  const sameDay = new Date(from).toDateString() === new Date(to).toDateString();
  return { from: dateTime(from), to: sameDay ? timeFormat.format(new Date(to)) : dateTime(to) };
}

/**
 * A span split for a countdown. Rounds up, so that zero is shown only when the time has come.
 * @param {number} spanMs milliseconds, negative counts as zero
 * @returns {{days: number, clock: string}} `clock` is `HH:MM:SS`
 */
export function countdown(spanMs) {
  const seconds = Math.max(0, Math.ceil(spanMs / 1000));
  const part = (value) => String(value).padStart(2, '0');
  return {
    days: Math.floor(seconds / 86_400),
    clock: `${part(Math.floor(seconds / 3_600) % 24)}:${part(Math.floor(seconds / 60) % 60)}:${part(seconds % 60)}`,
  };
}

/**
 * A short span, for a hold: `4:59`, or `1:04:59` from an hour on.
 * @param {number} spanMs milliseconds @returns {string}
 */
export function shortSpan(spanMs) {
  const seconds = Math.max(0, Math.ceil(spanMs / 1000));
  const part = (value) => String(value).padStart(2, '0');
  const hours = Math.floor(seconds / 3_600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${part(minutes)}:${part(seconds % 60)}` : `${minutes}:${part(seconds % 60)}`;
}

/** A length of time in words, such as `5 min`. @param {number} seconds @returns {string} */
export function duration(seconds) {
  const unit = seconds >= 120 || seconds % 60 === 0 ? 'minute' : 'second';
  const value = unit === 'minute' ? Math.round(seconds / 60) : seconds;
  return new Intl.NumberFormat(languageTag, { style: 'unit', unit, unitDisplay: 'short' }).format(value);
}

/** The time of day with seconds. @param {number} epochMs @returns {string} `HH:MM:SS`, local zone */
export function clockFace(epochMs) {
  return new Date(epochMs).toTimeString().slice(0, 8);
}
