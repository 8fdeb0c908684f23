/**
 * Products: the choices of both forms of items, and the form for a new product.
 */
import { get, post } from '../api.js';
import { choose, fillChoice, noteSent, reason, showResult } from '../desk.js';
import { byId, setText } from '../dom.js';
import { text } from '../strings.js';

let products = [];

/** Wire the form once, and fill the choices. */
export async function startProducts() {
  byId('product-form').addEventListener('submit', async (event) => {
    event.preventDefault();
    const result = byId('product-result');
    setText(result, '');
    const picture = byId('product-image').value.trim();
    const emptySent = noteSent(['product-name', 'product-description', 'product-image']);
    const body = {
      name: byId('product-name').value,
      description: byId('product-description').value,
      ...(picture !== '' && { image_url: picture }),
    };
    try {
      products.unshift(await post('/api/admin/products', body));
      showResult(result, text('product.created', { name: body.name }));
      emptySent();
      draw();
    } catch (error) {
      showResult(result, reason(error), 'bad');
    }
  });
  ({ products } = await get('/api/admin/products'));
  draw();
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
