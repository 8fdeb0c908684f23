//! Sign-in by the provider's page, as a browser does it, and what an attacker can try on the way.

use reqwest::{Client as Http, redirect::Policy};

use crate::support::identity_provider::serve_at;
use crate::support::prelude::*;

/// A browser without a screen: it has cookies, and follows redirects when it is told to.
struct Browser {
    http: Http,
    shop: SocketAddr,
    cookies: Vec<(String, String)>,
}

impl Browser {
    fn new(shop: SocketAddr) -> Self {
        let http = Http::builder().no_proxy().redirect(Policy::none()).build().expect("a client");
        Self { http, shop, cookies: Vec::new() }
    }

    /// Loads an address of the shop; answers where it leads, or an empty text.
    async fn visit(&mut self, path: &str) -> String {
        let answer = self.get(path).await;
        for set in answer.headers().get_all("set-cookie") {
            let set = set.to_str().expect("text");
            assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax"), "{set}");
            let (name, rest) = set.split_once('=').expect("a cookie");
            let value = rest.split(';').next().unwrap_or_default();
            self.cookies.retain(|(other, _)| other != name);
            if !set.contains("Max-Age=0;") {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        location(&answer)
    }

    /// Signs in on the provider's page as `who`; answers the path at which the provider sends the
    /// browser back.
    async fn at_provider(&self, page: &str, who: &str) -> String {
        let (address, query) = page.split_once('?').expect("a query");
        let asked = self.http.get(page).send().await.expect("an answer");
        assert_eq!(asked.status(), 200, "the provider refuses {page}");
        let mut form: Vec<(String, String)> =
            form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        form.push(("who".to_owned(), who.to_owned()));
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let login = address.replace("/authorize", "/login");
        let request = self.http.post(login).body(body);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let back = location(&request.send().await.expect("an answer"));
        back.strip_prefix(&format!("http://{}", self.shop)).expect("back to us").to_owned()
    }

    /// Signs in from the beginning to the end as `who`; answers where it leads.
    async fn sign_in(&mut self, who: &str) -> String {
        let page = self.visit("/api/session/provider").await;
        let back = self.at_provider(&page, who).await;
        self.visit(&back).await
    }

    /// Whose session the browser has.
    async fn who(&self) -> Value {
        self.get("/api/session").await.json().await.expect("JSON")
    }

    async fn get(&self, path: &str) -> reqwest::Response {
        let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let request = self.http.get(format!("http://{}{path}", self.shop));
        let request = request.header("cookie", cookies.collect::<Vec<_>>().join("; "));
        request.send().await.expect("an answer")
    }
}

fn location(answer: &reqwest::Response) -> String {
    let location = answer.headers().get("location");
    location.map(|it| it.to_str().expect("text").to_owned()).unwrap_or_default()
}

/// The code in the path at which the provider sends the browser back.
fn code(path: &str) -> &str {
    let (_, code) = path.split_once("code=").expect("a code");
    code.split('&').next().unwrap_or_default()
}

async fn testbed() -> (TestIdentityProvider, Shop, Instance) {
    let provider = TestIdentityProvider::start(vec![TestKey::ed("ed-1")]).await;
    let (shop, instance) = Shop::open_with(|config| {
        provider.configure(config);
        serve_at(config);
    })
    .await;
    (provider, shop, instance)
}

#[tokio::test]
async fn a_browser_signs_in_and_comes_back_to_where_it_was() {
    let (provider, _shop, instance) = testbed().await;
    provider.change_claims(json!({ "realm": { "roles": ["sales"] } }));
    let mut browser = Browser::new(instance.addr);
    let page = browser.visit("/api/session/provider?return=%2Fitem.html%3Fid%3D7").await;
    let back = browser.at_provider(&page, "ada").await;
    assert_eq!(browser.visit(&back).await, "/signin.html?done=1&return=%2Fitem.html%3Fid%3D7");
    let who = browser.who().await;
    assert_eq!((&who["username"], &who["role"]), (&json!("ada"), &json!("operator")), "{who}");
    assert_eq!(browser.cookies.len(), 1, "the cookie of the way is left: {:?}", browser.cookies);
    // Signing in again is the same user.
    assert_eq!(browser.sign_in("ada").await, "/signin.html?done=1&return=%2F");
    assert_eq!(browser.who().await["user_id"], who["user_id"]);
}

#[tokio::test]
async fn a_page_of_another_site_cannot_begin_a_sign_in() {
    let (_provider, _shop, instance) = testbed().await;
    let begin = async |name: &str, value: &str| {
        let request = instance.stranger().request(Method::GET, "/api/session/provider?return=%2F");
        Client::send(request.header(name, value)).await
    };
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
    ] {
        let refused = begin(name, value).await;
        assert_eq!(refused.brief(), (403, "cross_site_request"), "{name}: {value}: {refused:?}");
        assert!(!refused.headers.contains_key("set-cookie"), "{name}: {value}");
    }
    // Our own page, and an address that was typed.
    for site in ["same-origin", "none"] {
        assert!(begin("sec-fetch-site", site).await.headers.contains_key("set-cookie"), "{site}");
    }
}

#[tokio::test]
async fn a_sign_in_that_this_browser_did_not_begin_ends_nowhere() {
    let (_provider, _shop, instance) = testbed().await;
    let refused = "/signin.html?problem=sign_in_not_started&return=%2F";
    let mut attacker = Browser::new(instance.addr);
    let page = attacker.visit("/api/session/provider").await;
    let back = attacker.at_provider(&page, "attacker").await;
    // The victim follows the attacker's link: without a cookie, and with one of its own.
    let mut victim = Browser::new(instance.addr);
    assert_eq!(victim.visit(&back).await, refused);
    victim.visit("/api/session/provider").await;
    assert_eq!(victim.visit(&back).await, refused);
    assert_eq!(victim.who().await["code"], "unauthenticated");
    // No state, a changed state, and the answer of another provider.
    for changed in [
        back.split("&state=").next().expect("a code").to_owned(),
        back.replace("state=", "state=x"),
    ] {
        let mut browser = Browser::new(instance.addr);
        browser.cookies.clone_from(&attacker.cookies);
        assert_eq!(browser.visit(&changed).await, refused, "{changed}");
    }
    let mut browser = Browser::new(instance.addr);
    browser.cookies.clone_from(&attacker.cookies);
    let (rest, _) = back.split_once("&iss=").expect("an issuer");
    let mixed = browser.visit(&format!("{rest}&iss=https%3A%2F%2Fevil.example")).await;
    assert_eq!(mixed, "/signin.html?problem=identity_refused&return=%2F");
    // Nothing of this used the code up, and it is good once.
    assert!(attacker.visit(&back).await.contains("done=1"));
    let mut again = Browser::new(instance.addr);
    let page = again.visit("/api/session/provider").await;
    let own = again.at_provider(&page, "attacker").await;
    let replayed = again.visit(&own.replace(code(&own), code(&back))).await;
    assert_eq!(replayed, "/signin.html?problem=identity_refused&return=%2F", "a code worked twice");
    // The attacker's code in the victim's sign-in: PKCE binds it to the attacker's browser.
    let page = attacker.visit("/api/session/provider").await;
    let stolen = attacker.at_provider(&page, "attacker").await;
    let mut victim = Browser::new(instance.addr);
    let page = victim.visit("/api/session/provider").await;
    let own = victim.at_provider(&page, "victim").await;
    let injected = victim.visit(&own.replace(code(&own), code(&stolen))).await;
    assert_eq!(injected, "/signin.html?problem=identity_refused&return=%2F");
    assert_eq!(victim.who().await["code"], "unauthenticated");
}

#[tokio::test]
async fn an_id_token_that_is_not_for_this_sign_in_is_refused() {
    let (provider, _shop, instance) = testbed().await;
    for changes in [
        json!({ "nonce": "another" }),
        json!({ "nonce": null }),
        json!({ "nonce": 7 }),
        json!({ "aud": "another-service" }),
        json!({ "aud": ["seckill-test", "another"], "azp": "another" }),
        json!({ "iss": "https://evil.example" }),
        json!({ "exp": 1 }),
        json!({ "sub": null }),
        // Access tokens of Keycloak and of Amazon Cognito, which could have the nonce, too.
        json!({ "typ": "Bearer" }),
        json!({ "token_use": "access" }),
        json!({ "events": { "http://schemas.openid.net/event/backchannel-logout": {} } }),
    ] {
        provider.change_claims(changes.clone());
        let mut browser = Browser::new(instance.addr);
        let end = browser.sign_in("ada").await;
        assert!(end.starts_with("/signin.html?problem="), "{changes}: {end}");
        assert_eq!(browser.who().await["code"], "unauthenticated", "{changes}");
    }
    provider.change_claims(json!({ "aud": ["seckill-test", "another"], "azp": "seckill-test" }));
    let mut browser = Browser::new(instance.addr);
    assert!(browser.sign_in("ada").await.contains("done=1"));
}

#[tokio::test]
async fn refusals_and_absences_lead_back_to_the_page_of_sign_in() {
    let (provider, _shop, instance) = testbed().await;
    let mut browser = Browser::new(instance.addr);
    assert_eq!(browser.sign_in("nobody").await, "/signin.html?problem=identity_refused&return=%2F");
    // A path of another site is not gone to.
    for foreign in ["//evil.example", "https%3A%2F%2Fevil.example", "%2F%5Cevil.example"] {
        let page = browser.visit(&format!("/api/session/provider?return={foreign}")).await;
        let back = browser.at_provider(&page, "ada").await;
        assert_eq!(browser.visit(&back).await, "/signin.html?done=1&return=%2F", "{foreign}");
    }
    drop(provider);
    let (away, _shop, instance) = testbed().await;
    away.be_away(true);
    let mut browser = Browser::new(instance.addr);
    let end = browser.visit("/api/session/provider?return=/orders.html").await;
    assert_eq!(end, "/signin.html?problem=dependency_unavailable&return=%2Forders.html");
}

/// Discovery says how the secret is sent; Apple takes it in the form alone
/// (<https://appleid.apple.com/.well-known/openid-configuration>).
#[tokio::test]
async fn a_provider_that_takes_the_secret_in_the_form_gets_it_there() {
    let (provider, _shop, instance) = testbed().await;
    provider.take_secret_in_form();
    let mut browser = Browser::new(instance.addr);
    assert_eq!(browser.sign_in("ada").await, "/signin.html?done=1&return=%2F");
    assert_eq!(browser.who().await["username"], "ada");
}
