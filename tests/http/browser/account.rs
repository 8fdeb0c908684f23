//! The page of one's own account: a new password, and the end of all sessions.

use super::*;
use crate::http;

const OLD: &str = "a quiet harbour at noon";
const NEW: &str = "seven loud herons in may";

/// Makes an account, and signs in beside the browser; answers that session.
async fn account(instance: &Instance, name: &str) -> Client {
    http::sign_up(&instance.stranger(), name, OLD).await.expect_status(201);
    sign_in(instance, name, OLD).await.expect("signed in")
}

async fn sign_in(instance: &Instance, name: &str, password: &str) -> Option<Client> {
    let answer = http::sign_in(&instance.stranger(), name, password).await;
    Some(instance.stranger().with_token(answer.json["token"].as_str()?))
}

/// Opens a browser and signs in by the form, on the way to the orders.
async fn sign_in_by_form(instance: &Instance, look: Look, name: &str) -> Page {
    let page = Page::open(instance.addr, look).await;
    page.visit("/signin.html?return=/orders.html").await;
    submit(&page, name).await;
    page.until("the page", "location.pathname === '/orders.html'").await;
    page
}

/// Fills in the form and sends it.
async fn submit(page: &Page, name: &str) {
    page.fill("#username", name).await;
    page.fill("#password", OLD).await;
    page.click("#submit").await;
}

async fn is_over(client: &Client) {
    client.until("/api/orders", |answer| answer.status == 401).await;
}

#[tokio::test]
async fn a_password_is_changed_by_keyboard_and_ends_the_other_sessions() {
    let (_shop, instance) = Shop::open().await;
    let elsewhere = account(&instance, "herone").await;
    let page = sign_in_by_form(&instance, DESKTOP, "herone").await;
    page.until_text("#account .who", "herone").await;
    page.click("#account .who").await;
    page.until("the account", "location.pathname === '/account.html'").await;
    // A wrong present password says so at its field, and the session goes on.
    page.fill("#current", "not this one").await;
    page.fill("#new", NEW).await;
    page.press(Key::Enter).await;
    page.until_text("#current-error", "not your present password").await;
    page.until("the focus", "document.activeElement.id === 'current'").await;
    page.until_text("#account .who", "herone").await;
    // One that is easy to guess says so at its field.
    page.fill("#current", OLD).await;
    page.fill("#new", "password123").await;
    page.press(Key::Enter).await;
    page.until_text("#new-error", "easy to guess").await;
    page.fill("#new", NEW).await;
    page.press(Key::Enter).await;
    page.until_text("#done", "password is changed").await;
    is_over(&elsewhere).await;
    assert!(sign_in(&instance, "herone", OLD).await.is_none(), "the old password is over");
    assert!(sign_in(&instance, "herone", NEW).await.is_some());
    // The browser has its new session.
    page.visit_until("/orders.html", "#empty", "No orders yet").await;
    page.close_but_for(&["401", "422"]).await;
}

#[tokio::test]
async fn signing_out_everywhere_asks_first_and_ends_all_sessions() {
    let (_shop, instance) = Shop::open().await;
    let elsewhere = account(&instance, "otter").await;
    for look in [DESKTOP, CHINESE_PHONE] {
        let page = sign_in_by_form(&instance, look, "otter").await;
        // The foot moves until the page has its orders. A phone has no room for the name in the head.
        page.until("the orders", "!document.querySelector('#empty').hidden").await;
        page.click("#account-link").await;
        page.until("the account", "location.pathname === '/account.html'").await;
        page.click("#everywhere").await;
        page.until("the question", "!document.querySelector('#keep').hidden").await;
        page.click("#keep").await;
        page.until("no question", "document.querySelector('#keep').hidden").await;
        page.click("#everywhere").await;
        page.click("#everywhere").await;
        page.until("the sign-in page", "location.pathname === '/signin.html'").await;
        page.visit("/account.html").await;
        page.until("the sign-in page", "location.pathname === '/signin.html'").await;
        page.close().await;
    }
    is_over(&elsewhere).await;
}

/// A browser without its cookie signs in again. A sign-out without a connection says that the session goes on.
#[tokio::test]
async fn a_lost_cookie_and_a_lost_connection_are_told() {
    let (_shop, instance) = Shop::open().await;
    account(&instance, "heron").await;
    let page = sign_in_by_form(&instance, DESKTOP, "heron").await;
    page.until("the orders", "!document.querySelector('#empty').hidden").await;
    for width in [1280, 390] {
        page.look_as(width, false).await;
        // With its session it goes on at once.
        page.visit("/signin.html?return=%2Faccount.html").await;
        page.until("the account", "location.pathname === '/account.html'").await;
        // The cookie is gone, and the storage still has a session.
        page.forget_cookies().await;
        page.visit("/signin.html?return=%2Flab.html").await;
        page.until("that it forgets", "localStorage.getItem('seckill.session') === null").await;
        page.until_text("#heading", "Sign in").await;
        page.until("the page of sign-in", "location.pathname === '/signin.html'").await;
        submit(&page, "heron").await;
        page.until("the page before", "location.pathname === '/lab.html'").await;
    }
    page.look_as(1280, false).await;
    page.visit("/account.html").await;
    page.offline(true).await;
    page.click_until("#account button", "#still-signed-in", "You may still be signed in").await;
    page.until_text("#account .who", "heron").await;
    page.assert_accessible().await;
    page.offline(false).await;
    page.click_until("#account button", "#account", "Sign in").await;
    page.close_but_for(&["401", "ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED"]).await;
}

/// An account that was made is signed in by the next press, whichever answer was lost before.
#[tokio::test]
async fn an_account_without_a_session_is_signed_in_by_the_next_press() {
    let (_shop, instance) = Shop::open().await;
    for (name, path, lost, said) in [
        ("heron", "/api/session", 1, "Your account is ready"),
        // The second try says that the name is taken, and is lost, too: nobody knows whose account it is.
        ("otter", "/api/users", 2, ""),
    ] {
        let page = Page::open(instance.addr, DESKTOP).await;
        page.visit("/signin.html?mode=up&return=%2Forders.html").await;
        let lose = "const sent = window.fetch; let [path, left] = arguments; \
             window.fetch = async (...asked) => { \
               const answer = await sent(...asked); \
               if (asked[0] !== path || left === 0) return answer; \
               left -= 1; \
               throw new TypeError('lost'); };";
        page.run_with(lose, vec![json!(path), json!(lost)]).await;
        submit(&page, name).await;
        page.until_text("#form-error", "The shop did not answer").await;
        page.until_text("#notice", said).await;
        page.click("#submit").await;
        page.until("the orders", "location.pathname === '/orders.html'").await;
        page.until_text("#account .who", name).await;
        page.close_but_for(&["/api/users"]).await;
    }
}
