/**
 * What a buyer keeps of an entry: a file with all that was published so far, and a QR code of the address that checks
 * the entry.
 */
import { download } from './desk.js';
import { el, setText } from './dom.js';
import { text } from './strings.js';

/** The empty modules around a QR code. */
const PAD = 4;
const BLACK = [0, 0, 0];
const WHITE = [255, 255, 255, 255];

/** @returns {{element: HTMLElement, show: (draw: any, entry: any) => void}} */
export function entryReceipt() {
  const title = el('summary', {});
  const sentence = el('p', {});
  const save = el('button', { class: 'button quiet', type: 'button', onClick: saveFile });
  const code = el('canvas', { class: 'draw-code', role: 'img' });
  const address = el('a', {});
  const element = el('details', { class: 'draw-receipt', onToggle: paint }, title, sentence, el('div', { class: 'actions' }, save), code, el('p', { class: 'hint' }, address));
  /** @type {any} */
  let shown = null;

  function show(draw, entry) {
    element.hidden = entry.status === 'none';
    if (element.hidden) return;
    shown = { draw, entry };
    setText(title, text('draw.keep'));
    setText(sentence, text('draw.keepText'));
    setText(save, text('draw.keepSave'));
    code.setAttribute('aria-label', text('draw.keepCode'));
    const check = checkAddress(entry);
    if (address.getAttribute('href') === check) return;
    address.href = check;
    setText(address, text('draw.keepAddress'));
    paint();
  }

  function saveFile() {
    const { draw, entry } = shown;
    const { item_id: item, entry: id, entered_at } = entry;
    const file = { ...draw, entry: id, entered_at, check: checkAddress(entry) };
    download(`draw-${item}-${id.slice(0, 8)}.json`, 'application/json', JSON.stringify(file, null, 2));
  }

  /** Paints the code once somebody looks at it. */
  async function paint() {
    if (!element.open || shown === null) return;
    const { generate } = await import('./vendor/lean-qr.js');
    generate(address.href).toCanvas(code, { on: BLACK, off: WHITE, pad: PAD });
  }

  return { element, show };
}

/** @param {any} entry */
function checkAddress({ item_id: item, entry }) {
  return `${location.origin}/verify.html#item=${item}&entry=${entry}`;
}
