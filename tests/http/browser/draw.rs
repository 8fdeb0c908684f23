//! Buyers enter a draw, see their place, buy, and check the proof; and the checking page as a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use web::token::Role;

use super::driver::{DESKTOP, Look, PHONE, Page};
use super::{in_seconds, make_sale, orders_of};
use crate::support::{Instance, Shop, unique};

const BUYER: i64 = 77;
/// What a page would save, without a dialog of the browser.
const KEEP: &str = "URL.createObjectURL = (blob) => { blob.text().then((text) => { globalThis.kept = text; }); \
    return '#kept'; };";

/// A sale of one unit that is drawn `seconds` from now.
async fn drawn_sale(instance: &Instance, seconds: i64) -> i64 {
    let closes_at = in_seconds(seconds);
    let draw = json!({ "stock": 1, "mode": "draw", "draw_closes_at": closes_at });
    make_sale(instance, draw).await
}

/// Signs the buyer in, and shows a new sale that is drawn soon. A browser takes seconds to start on a busy machine, so
/// it runs before the draw begins.
async fn visit_drawn_sale(page: &Page, instance: &Instance) -> i64 {
    page.visit_as(instance, BUYER, Role::Buyer, "/orders.html").await;
    let item = drawn_sale(instance, 12).await;
    page.visit(&format!("/item.html?id={item}")).await;
    item
}

async fn shop() -> (Shop, Instance) {
    let shop = Shop::with(|config| {
        // The list must be published before the round, on a busy machine too.
        config.sections.set("draw", "round_after_seconds", 5);
        config.sections.set("draw", "poll_ms", 50);
    })
    .await;
    let instance = shop.start().await;
    (shop, instance)
}

#[tokio::test]
async fn a_buyer_enters_wins_buys_and_checks_the_proof() {
    let (_shop, instance) = shop().await;
    let page = Page::open(instance.addr, DESKTOP).await;
    visit_drawn_sale(&page, &instance).await;
    page.until_text("#draw", "Enter until").await;
    page.until("no button to buy", "document.getElementById('buy-form').hidden").await;
    page.click("#draw .button").await;
    page.until_text("#draw", "You are in the draw").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("draw-entered").await;
    page.until_text("#draw", "Your place is 1").await;
    page.until_text("#waiting", "held for you").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("draw-placed").await;
    page.click("#waiting .button").await;
    page.until_text("#outcome", "It’s yours").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    // The link of the page leads to the check of this very entry.
    page.run("document.querySelector('#draw a[href^=\"/verify.html#\"]').click()", Vec::new())
        .await;
    page.until_text("#result", "The places are right").await;
    page.until_text("#result", "Your entry is in the list. Its place is 1").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("draw-verified").await;
    page.close().await;
}

#[tokio::test]
async fn a_buyer_withdraws_on_a_phone_and_in_chinese() {
    let (_shop, instance) = shop().await;
    let item = drawn_sale(&instance, 600).await;
    let page = Page::open(instance.addr, Look { language: "zh-CN", dark: true, ..PHONE }).await;
    page.visit_as(&instance, BUYER, Role::Buyer, &format!("/item.html?id={item}")).await;
    page.until_text("#draw", "参加抽签").await;
    page.click("#draw .button").await;
    page.until_text("#draw", "您已报名").await;
    page.shot("phone-draw-entered").await;
    page.click("#draw .button").await;
    page.until_text("#draw .button", "参加抽签").await;
    let entry = instance.buyer(BUYER).get(&format!("/api/items/{item}/entry")).await;
    assert_eq!(entry.json["status"], "none");
    page.close().await;
}

#[tokio::test]
async fn friends_enter_by_an_invitation() {
    let (_shop, instance) = shop().await;
    let closes_at = in_seconds(600);
    let draw =
        json!({ "stock": 2, "mode": "draw", "draw_closes_at": closes_at, "draw_party_max": 2 });
    let item = make_sale(&instance, draw).await;
    let page = Page::open(instance.addr, PHONE).await;
    page.visit_as(&instance, BUYER, Role::Buyer, &format!("/item.html?id={item}")).await;
    page.until_text("#draw", "Enter with friends").await;
    page.click("#draw .button.quiet").await;
    page.until_text("#draw", "You are the first of at most 2 friends").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("phone-draw-friends").await;
    let invitation =
        page.run("return document.querySelector('.draw-invitation').href", Vec::new()).await;
    let invitation = invitation.as_str().expect("an address");
    let friend = Page::open(instance.addr, Look { language: "zh-CN", ..DESKTOP }).await;
    let path = invitation.split_once("/item.html").expect("an address of the shop").1;
    friend.visit_as(&instance, BUYER + 1, Role::Buyer, &format!("/item.html{path}")).await;
    friend.until_text("#draw", "朋友邀请您一起抽签").await;
    friend.shot("draw-invited").await;
    friend.click("#draw .button").await;
    friend.until_text("#draw", "已有 2 人").await;
    assert_eq!(friend.violations().await, Vec::<String>::new());
    friend.shot("draw-friends").await;
    page.close().await;
    friend.close().await;
}

#[tokio::test]
async fn a_buyer_keeps_the_entry_loses_and_sees_why() {
    let (_shop, instance) = shop().await;
    let page = Page::open(instance.addr, DESKTOP).await;
    let item = visit_drawn_sale(&page, &instance).await;
    page.until_text("#draw", "Enter the draw").await;
    page.run(KEEP, Vec::new()).await;
    page.click("#draw > .actions .button").await;
    page.until_text("#draw", "Keep your entry").await;
    page.click(".draw-keep summary").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("draw-kept").await;
    page.click(".draw-keep button").await;
    page.until("the file", "typeof globalThis.kept === 'string'").await;
    let kept = page.run("return globalThis.kept", Vec::new()).await;
    let kept: Value = serde_json::from_str(kept.as_str().expect("a text")).expect("JSON");
    let entry = instance.buyer(BUYER).get(&format!("/api/items/{item}/entry")).await.json;
    assert_eq!(kept["entry"], entry["entry"]);
    // Twenty others enter for the one unit. Then the kept file and the proof are checked without the shop.
    for buyer in 1..=20 {
        let path = format!("/api/items/{item}/entry");
        assert_eq!(instance.buyer(buyer).post(&path, &json!({})).await.status, 200);
    }
    page.until_text("#draw", "Your place is").await;
    page.until_text("#draw", "Of 21 entries").await;
    page.shot("draw-lost").await;
    let proof = instance.stranger().get(&format!("/api/items/{item}/draw/entries")).await.text;
    let folder = new_folder();
    let file = |name: &str, text: &str| save(&folder, name, text);
    let files = [file("proof.ndjson", &proof), file("kept.json", &kept.to_string())];
    let alone = one_file(&instance, &folder).await;
    page.visit_elsewhere(&alone).await;
    page.until("the page", "'ready' in document.documentElement.dataset").await;
    for (field, file) in ["#proof", "#announced"].into_iter().zip(&files) {
        page.fill(field, file).await;
    }
    page.click("#form .button").await;
    page.until_text("#result", "The places are right").await;
    let place =
        instance.buyer(BUYER).get(&format!("/api/items/{item}/entry")).await.json["place"].clone();
    page.until_text("#result", &format!("Your entry is in the list. Its place is {place}")).await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("draw-verified-alone").await;
    page.close().await;
}

#[tokio::test]
async fn an_operator_sees_the_state_and_the_proof_of_a_draw() {
    let (_shop, instance) = shop().await;
    let item = drawn_sale(&instance, 12).await;
    for buyer in 1..=3 {
        let path = format!("/api/items/{item}/entry");
        assert_eq!(instance.buyer(buyer).post(&path, &json!({})).await.status, 200);
    }
    for (name, look, seed) in [
        ("console-draw", DESKTOP, "Seed"),
        ("phone-console-draw", Look { language: "zh-CN", ..PHONE }, "种子"),
    ] {
        let page = Page::open(instance.addr, look).await;
        let path = format!("/console.html?id={item}");
        page.visit_as(&instance, 1, Role::Admin, &path).await;
        page.until_text("#draw-facts", "3").await;
        page.until_text("#draw-facts", seed).await;
        assert_eq!(page.violations().await, Vec::<String>::new());
        page.shot(name).await;
        page.close().await;
    }
}

pub fn new_folder() -> PathBuf {
    let folder = std::env::temp_dir().join(unique("verify"));
    std::fs::create_dir(&folder).expect("a folder");
    folder
}

/// Writes a file into a folder, and returns its path.
pub fn save(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path.to_string_lossy().into_owned()
}

/// Saves the checking page as a buyer does, into a folder where nothing else of the shop is; returns its address.
pub async fn one_file(instance: &Instance, folder: &Path) -> String {
    let saved = instance.stranger().get("/verify.html").await.text;
    for outside in [" src=\"", "url(", "@import", "import(", "http-equiv"] {
        let mut found = saved.match_indices(outside).map(|(at, _)| &saved[at + outside.len()..]);
        assert!(
            found.all(|rest| rest.starts_with("data:")),
            "the file names another one: {outside}"
        );
    }
    let mut links = saved.match_indices(" href=\"").map(|(at, found)| &saved[at + found.len()..]);
    assert!(links.all(|link| link.starts_with('#') || link.starts_with("data:")), "a link out");
    let path = folder.join("saved.html");
    std::fs::write(&path, saved).expect("written");
    format!("file://{}", path.display())
}

#[tokio::test]
async fn the_checking_page_finds_every_fraud_as_one_file_without_a_server() {
    let (_shop, instance) = Shop::open().await;
    let folder = new_folder();
    let address = one_file(&instance, &folder).await;
    instance.stop().await;
    let page = Page::open(SocketAddr::from(([127, 0, 0, 1], 9)), DESKTOP).await;
    page.visit_elsewhere(&address).await;
    page.until("the checker", "typeof DrawProof === 'object'").await;
    let cases: Value =
        serde_json::from_str(include_str!("../../../crates/verify/vectors.json")).expect("cases");
    let script = "const cases = arguments[0]; \
        Promise.all(cases.map((one) => DrawProof.check(one, \
          { announced: one.announced ?? null, entry: one.entry ?? null }))) \
        .then((found) => { globalThis.found = found.map((one) => one.faults.sort()); })";
    page.run(script, vec![cases.clone()]).await;
    page.until("every case", "Array.isArray(globalThis.found)").await;
    let found = page.run("return globalThis.found", Vec::new()).await;
    for (case, found) in
        cases.as_array().expect("a list").iter().zip(found.as_array().expect("a list"))
    {
        let mut expected: Vec<&str> =
            case["faults"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        expected.sort_unstable();
        assert_eq!(found, &json!(expected), "{}", case["name"]);
    }
    page.close().await;
}
