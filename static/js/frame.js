/**
 * What all pages share: the sentences in the markup, who is signed in, the shop's clock in the foot.
 */
import { get, remove } from './api.js';
import { cartLines, onCartChange } from './cart.js';
import { distrust, everySecond } from './clock.js';
import { byId, el, setText } from './dom.js';
import { clockFace } from './format.js';
import { currentSession, forgetSession, isOperator, onSessionChange, seemsOver, signInAddress } from './session.js';
import { chooseLanguage, language, LANGUAGES, languageTag, text } from './strings.js';

/**
 * Fill the frame. Every page calls this once.
 * @param {string} [titleKey] the key of the page's title
 */
export function startFrame(titleKey) {
  document.documentElement.lang = languageTag;
  if (titleKey) document.title = text(titleKey);
  for (const element of document.querySelectorAll('[data-text]')) setText(element, text(element.dataset.text));
  for (const element of document.querySelectorAll('[data-label]'))
    element.setAttribute('aria-label', text(element.dataset.label));
  drawFoot();
  drawAccount();
  onSessionChange(drawAccount);
  // A 401 makes the browser forget the session.
  if (seemsOver()) get('/api/session').catch(() => {});
  drawCart();
  onCartChange(drawCart);
  everySecond((nowMs) => setText(byId('shop-clock'), clockFace(nowMs)));
  document.addEventListener('visibilitychange', () => document.hidden || distrust());
}

/** The way to the lab, and the other languages, each under its own name. */
function drawFoot() {
  const others = Object.entries(LANGUAGES).filter(([code]) => code !== language);
  const names = new Intl.DisplayNames([languageTag], { type: 'language' });
  const buttons = others.map(([code, { name, tag }]) =>
    el('button', { class: 'foot-link', type: 'button', lang: tag, title: names.of(code), text: name, onClick: () => chooseLanguage(code) }),
  );
  // The name in the head leads there too, but a phone has no room for it.
  const account = el('a', { id: 'account-link', href: '/account.html', text: text('nav.account') });
  byId('shop-clock').parentElement.append(account, el('a', { href: '/lab.html', text: text('nav.lab') }), ...buttons);
}

/** The way to the cart, while something is in it. */
function drawCart() {
  const here = location.pathname === '/cart.html';
  const count = cartLines().length;
  const words = { id: 'cart-link', class: 'top-link', href: '/cart.html', 'aria-current': here && 'page' };
  byId('cart-link')?.remove();
  if (count > 0 || here) byId('account').before(el('a', { ...words, text: text('nav.cart', { count }) }));
}

/** The operator's pages, for operators. */
function drawOperatorLinks() {
  for (const link of document.querySelectorAll('.operator-link')) link.remove();
  if (!isOperator()) return;
  const links = ['console', 'lab'].map((name) => {
    const here = location.pathname === `/${name}.html`;
    const words = { class: 'top-link operator-link', href: `/${name}.html`, text: text(`nav.${name}`) };
    return el('a', { ...words, 'aria-current': here && 'page' });
  });
  byId('account').before(...links);
}

function drawAccount() {
  const session = currentSession();
  const place = byId('account');
  drawOperatorLinks();
  byId('account-link').hidden = session === null;
  if (session === null) {
    const here = location.pathname.startsWith('/signin');
    place.replaceChildren(
      el('a', {
        class: 'top-link',
        href: here ? location.href : signInAddress(),
        text: text('nav.signIn'),
        'aria-current': here && 'page',
      }),
    );
    return;
  }
  place.replaceChildren(
    el('a', {
      class: 'top-link who',
      href: '/account.html',
      text: session.username,
      title: text('nav.account'),
      'aria-current': location.pathname === '/account.html' && 'page',
    }),
    el('button', { class: 'top-link', type: 'button', text: text('nav.signOut'), onClick: signOut }),
  );
}

async function signOut() {
  try {
    await remove('/api/session');
  } catch (error) {
    if (error.status === undefined) throw error;
    // 401 means that it had ended already; anything else leaves the cookie, so stay signed in.
    if (error.status !== 401) return showStillSignedIn();
  }
  forgetSession();
  location.assign('/');
}

function showStillSignedIn() {
  byId('still-signed-in')?.remove();
  // Made anew, it is read out again.
  byId('main').prepend(el('p', { id: 'still-signed-in', class: 'notice', role: 'alert', text: text('account.notEnded') }));
  scrollTo({ top: 0 });
}
