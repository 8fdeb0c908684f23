/**
 * The picture of an item: its own, or a drawn dial with its initials when it has none or it fails.
 */
import { el } from './dom.js';

const TONES = 6;
const SVG = 'http://www.w3.org/2000/svg';

/**
 * @param {{id: number, name: string, image_url: string|null}} item
 * @param {{eager?: boolean}} [options] `eager` for the picture the page is about
 * @returns {HTMLElement}
 */
export function picture(item, { eager = false } = {}) {
  const frame = el('div', { class: `picture tone-${item.id % TONES}`, 'aria-hidden': 'true' });
  const address = usableAddress(item.image_url);
  if (address === null) {
    frame.append(dial(item));
    return frame;
  }
  const image = el('img', {
    src: address,
    alt: '',
    width: 800,
    height: 600,
    decoding: 'async',
    loading: eager ? null : 'lazy',
  });
  image.addEventListener('error', () => image.replaceWith(dial(item)), { once: true });
  frame.append(image);
  return frame;
}

/** Only what the content security policy lets through; anything else would be an error on the page. */
function usableAddress(written) {
  if (!written) return null;
  try {
    const address = new URL(written, location.origin);
    return address.origin === location.origin || address.protocol === 'https:' ? address.href : null;
  } catch {
    return null;
  }
}

/** A dial of sixty ticks, a different arc of it lit for every item. */
function dial(item) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 400 300');
  svg.setAttribute('preserveAspectRatio', 'xMidYMid meet');
  const lit = 12 + ((item.id * 17) % 40);
  for (let tick = 0; tick < 60; tick += 1) {
    const line = document.createElementNS(SVG, 'line');
    const place = { x1: 200, x2: 200, y1: 32, y2: tick % 5 === 0 ? 56 : 48, transform: `rotate(${tick * 6} 200 150)` };
    for (const [name, value] of Object.entries(place)) line.setAttribute(name, String(value));
    line.setAttribute('class', tick < lit ? 'tick lit' : 'tick');
    svg.append(line);
  }
  const letters = document.createElementNS(SVG, 'text');
  letters.setAttribute('x', '200');
  letters.setAttribute('y', '150');
  letters.textContent = initials(item.name);
  svg.append(letters);
  return svg;
}

function initials(name) {
  const words = name.trim().split(/\s+/u).slice(0, 2);
  return words
    .map((word) => Array.from(word)[0] ?? '')
    .join('')
    .toUpperCase();
}
