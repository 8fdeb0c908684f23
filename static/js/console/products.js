/**
 * Products: the choices of both forms of items, and the form for a new product.
 */
import { get, post } from '../api.js';
import { changeOnce, choose, fillChoice, noteSent, showBusy, showResult } from '../desk.js';
import { byId } from '../dom.js';
import { text } from '../strings.js';

let products = [];

/** Wire the form once, and fill the choices. */
export async function startProducts() {
  byId('product-form').addEventListener('submit', (event) => {
    event.preventDefault();
    create();
  });
  await read();
}

async function read() {
  ({ products } = await get('/api/admin/products'));
  draw();
}

/** A second press creates nothing: the field is empty by then. */
function create() {
  if (byId('product-name').value.trim() === '') return byId('product-name').focus();
  const picture = byId('product-image').value.trim();
  const emptySent = noteSent(['product-name', 'product-description', 'product-image']);
  const body = {
    name: byId('product-name').value,
    description: byId('product-description').value,
    ...(picture !== '' && { image_url: picture }),
  };
  const say = (words, tone) => showResult(byId('product-result'), words, tone);
  changeOnce('product', {
    send: () => post('/api/admin/products', body),
    done: (created) => {
      products.unshift(created);
      say(text('product.created', { name: body.name }));
      emptySent();
      draw();
    },
    read,
    draw: (isBusy) => showBusy(byId('product-form'), isBusy),
    say,
  });
}

function draw() {
  const entries = [{ value: '0', words: text('edit.noProduct') }, ...products.map(entryOf)];
  for (const id of ['edit-product', 'new-product']) fillChoice(byId(id), entries);
}

function entryOf({ id, name }) {
  return { value: String(id), words: name };
}

/** Choose the product of an item in the form. @param {object} item */
export function showProduct({ product }) {
  choose(byId('edit-product'), !product ? { value: '0', words: text('edit.noProduct') } : entryOf(product));
  byId('edit-options').value = (product?.options ?? []).map(({ name, value }) => `${name}=${value}`).join('; ');
}

/**
 * The fields of a request for what the forms say.
 * @param {string} product the id of the product, or 0 @param {string} options such as `Size=M; Colour=red`
 */
export function variantFields(product, options) {
  const parts = options.split(';').filter((part) => part.trim() !== '');
  const pairs = parts.map((part) => part.split(/=(.*)/su).map((word) => word.trim()));
  return { product_id: Number(product), options: pairs.map(([name, value = '']) => ({ name, value })) };
}
