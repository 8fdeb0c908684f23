/**
 * How a product looks: its items, the variants, are one entry of the list, and each page of them links to the others.
 */
import { get } from './api.js';
import { el, setText } from './dom.js';
import { count, money } from './format.js';
import { mergeFacts, nextMoment, stateOf } from './sale.js';
import { text } from './strings.js';

const POLL_MS = 5_000;
/** The variants of which a buyer can have one come first. */
const BEST_FIRST = ['open', 'upcoming', 'paused', 'sold_out', 'ended'];

/** By what a variant differs from the others, such as `Size: M · Colour: red`. @param {object} item */
export function optionsOf({ name, product }) {
  const options = product.options.map((option) => text('variant.option', option));
  return options.length > 0 ? options.join(' · ') : name;
}

/** An item with the name of its product, and with the product's text and picture where it has none. @param {object} item */
export function shownOf(item) {
  const { product, description, image_url } = item;
  if (product === null) return item;
  const shown = { description: description || product.description, image_url: image_url ?? product.image_url };
  return { ...item, ...shown, name: product.name };
}

/** The variant that stands for its product. @param {object[]} items @returns {object} */
export function leadOf(items) {
  const rank = (item) => BEST_FIRST.indexOf(stateOf(item));
  const sooner = (a, b) => rank(a) - rank(b) || nextMoment(a).atMs - nextMoment(b).atMs || a.id - b.id;
  return items.length === 1 ? items[0] : [...items].sort(sooner)[0];
}

/**
 * The items of the shop by what is one entry of its list: a product, or an item without one.
 * @param {object[]} items @returns {Map<string, object[]>}
 */
export function byEntry(items) {
  const entries = new Map();
  for (const item of items) {
    const key = item.product === null ? `item-${item.id}` : `product-${item.product.id}`;
    entries.set(key, [...(entries.get(key) ?? []), item]);
  }
  return entries;
}

/** The lowest price of each currency, with a word in front of it if there are others. @param {object[]} items */
export function priceOf(items) {
  const currencies = new Set([leadOf(items), ...items].map(({ currency }) => currency));
  const lowestIn = (currency) => {
    const prices = items.filter((item) => item.currency === currency).map((item) => item.price_cents);
    const lowest = money(Math.min(...prices), currency);
    return new Set(prices).size > 1 ? text('variant.from', { price: lowest }) : lowest;
  };
  return [...currencies].map(lowestIn).join(' · ');
}

/**
 * The other variants, with their stock, on the page of one.
 * @param {HTMLElement} place @param {object} item the variant of the page
 */
export function variantsPanel(place, item) {
  const { id, options } = item.product;
  const names = options.map(({ name }) => name).join(' · ');
  const list = el('ul', { class: 'variant-list' });
  const title = el('h2', { id: 'variants-title', class: 'label', text: names || text('variant.heading') });
  place.replaceChildren(title, list);
  /** @type {Map<number, {item: object, draw: () => void}>} */
  const links = new Map();

  async function refresh() {
    try {
      if (!document.hidden) take((await get(`/api/products/${id}`)).items);
    } catch {
      // The page sells without them; the next round tries again.
    }
    setTimeout(refresh, POLL_MS);
  }

  function take(items) {
    for (const news of items) {
      const known = links.get(news.id);
      if (known === undefined) addLink(news);
      else if (mergeFacts(known.item, news)) known.draw();
    }
    place.hidden = links.size < 2;
  }

  function addLink(variant) {
    const left = el('span', { class: 'variant-left' });
    const values = variant.product.options.map(({ value }) => value).join(' · ');
    const name = el('strong', { text: values || variant.name });
    const price = money(variant.price_cents, variant.currency);
    const other = price === money(item.price_cents, item.currency) ? null : el('span', { text: price });
    const link = el('a', { class: 'variant', href: `/item.html?id=${variant.id}` }, name, other, left);
    if (variant.id === item.id) link.setAttribute('aria-current', 'page');
    const entry = { item: variant, draw };
    function draw() {
      const state = stateOf(entry.item);
      link.dataset.state = state;
      const words = { count: entry.item.available, left: count(entry.item.available) };
      setText(left, state === 'open' ? text('variant.left', words) : text(`state.${state}`));
    }
    links.set(variant.id, entry);
    list.append(el('li', {}, link));
    draw();
  }

  refresh();
}

/** The page of a product's best variant, for an address that names the product. @param {number} productId */
export async function variantAddress(productId) {
  const { items } = await get(`/api/products/${productId}`);
  return items.length > 0 ? `/item.html?id=${leadOf(items).id}` : null;
}
