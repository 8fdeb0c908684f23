/**
 * What a buyer keeps of an order or of an entry in a draw: a file, and a QR code of each address that checks it.
 */
import { get } from './api.js';
import { download } from './desk.js';
import { el, setText } from './dom.js';
import { text } from './strings.js';

/** How often the log is asked, and the pause if the answer names none. */
const ATTEMPTS_MAX = 30;
const PAUSE_MS = 1_000;
/** The empty modules around a QR code. */
const PAD = 4;
const BLACK = [0, 0, 0];
const WHITE = [255, 255, 255, 255];

/**
 * @typedef {{name: string, content: object, checks: {address: string, label: string, log?: string}[]}} Receipt a file
 *   with its name, and the pages that check it; `log` is the address of the log that a check without the shop needs
 * @param {string} title the key of its title, and with `Text` that of its sentence
 * @param {() => Promise<Receipt>} read
 * @returns {{element: HTMLElement, show: (name: string | null) => void}} `show` fills the panel again when the name is
 *   another one; `null` hides it
 */
export function receiptPanel(title, read) {
  const summary = el('summary', {});
  const sentence = el('p', {});
  const save = el('button', { class: 'button quiet', type: 'button', onClick: () => attempt(saveFile) });
  const state = el('p', { class: 'hint', role: 'status' });
  const list = el('ul', { class: 'receipt-checks' });
  const checker = el('a', { href: '/verify.html', download: 'verify.html' });
  const element = el('details', { class: 'receipt', hidden: true, onToggle: open }, summary, sentence, el('div', { class: 'actions' }, save), state, list, el('p', { class: 'hint' }, checker));
  /** @type {string | null} */
  let shown = null;

  function show(name) {
    element.hidden = name === null;
    if (name === null || name === shown) return;
    shown = name;
    setText(summary, text(title));
    setText(sentence, text(`${title}Text`));
    setText(save, text('receipt.save'));
    setText(checker, text('receipt.checker'));
    open();
  }

  /** Reads the receipt and paints its QR codes when the buyer opens the panel, and not before. */
  function open() {
    if (element.open) attempt(paint);
  }

  async function attempt(action) {
    setText(state, text('receipt.busy'));
    try {
      await action(await read());
      setText(state, '');
    } catch (error) {
      if (error.status === undefined) throw error;
      setText(state, text('receipt.failed'));
    }
  }

  function saveFile({ name, content }) {
    download(name, 'application/json', JSON.stringify(content, null, 2));
  }

  async function paint({ checks }) {
    const { generate } = await import('./vendor/lean-qr.js');
    const entries = checks.map(({ address, label, log }) => {
      const code = el('canvas', { class: 'receipt-code', role: 'img', 'aria-label': text('receipt.code', { label }) });
      generate(address).toCanvas(code, { on: BLACK, off: WHITE, pad: PAD });
      const links = el('p', { class: 'hint' }, el('a', { href: address, text: label }));
      if (log) links.append(' · ', el('a', { href: log, download: 'log.txt', text: text('receipt.log') }));
      return el('li', {}, code, links);
    });
    list.replaceChildren(...entries);
  }

  return { element, show };
}

/** Reads a receipt once the answer is in the log. @param {string} path @returns {Promise<any>} @throws {ApiError} */
export async function fetchReceipt(path) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await get(path);
    } catch (error) {
      if (error.code !== 'receipt_pending' || attempt >= ATTEMPTS_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, error.retryAfterMs ?? PAUSE_MS));
    }
  }
}
