//! Buyers enter a draw, see their place, buy, and check the proof; and the checking page as a file.

use super::*;
use crate::ledger::draw::until_drawn;

const BUYER: i64 = 77;
/// What a page would save, without a dialog of the browser.
const KEEP: &str = "URL.createObjectURL = (blob) => { blob.text().then((text) => { globalThis.kept = text; }); \
    return '#kept'; };";

/// A sale of one unit that is drawn `seconds` from now.
async fn drawn_sale(instance: &Instance, seconds: i64) -> i64 {
    let closes_at = in_seconds(seconds);
    make_sale(instance, json!({ "stock": 1, "mode": "draw", "draw_closes_at": closes_at })).await
}

/// Signs the buyer in, and shows a new sale that is drawn `seconds` from now. A browser takes seconds to start on a busy
/// machine, so it runs before the draw begins.
async fn visit_drawn_sale(page: &Page, instance: &Instance, seconds: i64) -> i64 {
    page.visit_as(instance, BUYER, Role::Buyer, "/orders.html").await;
    let item = drawn_sale(instance, seconds).await;
    page.visit(&format!("/item.html?id={item}")).await;
    item
}

pub(super) async fn shop() -> (Shop, Instance) {
    Shop::open_with(|config| {
        // The list must be published before the round, on a busy machine too.
        config.sections.set("draw", "round_after_seconds", 5);
        config.sections.set("draw", "poll_ms", 50);
    })
    .await
}

/// Takes the file that the page has for its buyer, as a click on its button saves it.
async fn saved_file(page: &Page) -> String {
    page.run(KEEP).await;
    page.click(".draw-keep summary").await;
    page.click(".draw-keep button").await;
    page.until("the file", "typeof globalThis.kept === 'string'").await;
    let kept = page.run("return globalThis.kept").await;
    kept.as_str().expect("a text").to_owned()
}

/// Gives files to the checking page as it was saved, without the shop.
async fn check_alone(page: &Page, address: &str, proof: &str, saved: &str) {
    page.visit_elsewhere(address).await;
    page.until("the page", "'ready' in document.documentElement.dataset").await;
    page.fill("#proof", proof).await;
    page.fill("#saved", saved).await;
    page.click("#form .button").await;
}

/// The page saves by itself, so a buyer who closes it can check the draw later, without the shop.
#[tokio::test]
async fn won_and_checked_alone() {
    let (_shop, instance) = shop().await;
    let page = Page::open(instance.addr, DESKTOP).await;
    let item = visit_drawn_sale(&page, &instance, 12).await;
    page.until_text("#draw", "Enter until").await;
    page.until("no button to buy", "document.getElementById('buy-form').hidden").await;
    page.click_until("#draw .button", "#draw", "You are in the draw").await;
    page.until_text("#draw", "This browser has saved the shop’s signed promise").await;
    page.visit_elsewhere("about:blank").await;
    until_drawn(&instance.stranger(), item).await;
    page.visit_until(&format!("/item.html?id={item}"), "#draw", "Your place is 1").await;
    page.until_text("#draw", "Not a proof: the shop makes the value").await;
    page.until_text("#waiting", "held for you").await;
    for (paused, said) in [(true, "you have the whole time again"), (false, "Buy it before")] {
        instance.admin().edit(item, json!({ "paused": paused })).await.expect_status(200);
        page.until_text("#waiting", said).await;
    }
    let kept = saved_file(&page).await;
    let is_late = kept.contains("draw head");
    assert!(!is_late, "a list that was read after the round shows nothing: {kept}");
    page.click_until("#waiting .button", "#outcome", "It’s yours").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    let proof = page.run("return document.querySelector('#draw a[download$=\"-proof.txt\"]').href");
    let proof = proof.await;
    let path = proof.as_str().and_then(|address| address.split_once("/api/")).expect("an address");
    let proof = instance.stranger().get(&format!("/api/{}", path.1)).await.text;
    let folder = TestFolder::new("verify");
    let alone = one_file(&instance, &folder).await;
    let proof = save(&folder, "proof.txt", &proof);
    let kept = save(&folder, "kept.txt", &kept);
    instance.stop().await;
    check_alone(&page, &alone, &proof, &kept).await;
    page.until_text("#result", "Not a proof: the shop made the value").await;
    page.until_text("#result", "Your entry is in the list. Its place is 1 of 1").await;
    page.until_text("#result", "Units: 1. Your place was among the first").await;
    page.until_text("#result", "the file has the rules alone").await;
    page.assert_accessible().await;
    page.close().await;
}

#[tokio::test]
async fn friends_enter_by_an_invitation() {
    let (_shop, instance) = shop().await;
    let closes_at = in_seconds(600);
    let draw =
        json!({ "stock": 2, "mode": "draw", "draw_closes_at": closes_at, "draw_party_max": 2 });
    let item = make_sale(&instance, draw).await;
    let page = Page::of_buyer(&instance, PHONE, BUYER, &format!("/item.html?id={item}")).await;
    page.until_text("#draw", "Enter with friends").await;
    page.click("#draw .button.quiet").await;
    page.until_text("#draw", "You are the first of at most 2 friends").await;
    let invitation = page.run("return document.querySelector('.draw-invitation').href").await;
    let invitation = invitation.as_str().expect("an address");
    let friend = Page::open(instance.addr, Look { language: "zh-CN", ..DESKTOP }).await;
    let path = invitation.split_once("/item.html").expect("an address of the shop").1;
    friend.visit_as(&instance, BUYER + 1, Role::Buyer, &format!("/item.html{path}")).await;
    friend.until_text("#draw", "朋友邀请您一起抽签").await;
    friend.click_until("#draw > .actions .button:last-child", "#draw", "您已报名").await;
    friend.click_until("#draw > .actions .button:last-child", "#draw", "已有 2 人").await;
    // The promise is another one now, and it was this page that asked for it.
    friend.until_text("#draw", "此浏览器已保存").await;
    page.close().await;
    friend.close().await;
}

/// A page that stays open saves the signed list, too, before the round.
#[tokio::test]
async fn lost_and_told_why() {
    let (_shop, instance) = shop().await;
    let page = Page::open(instance.addr, DESKTOP).await;
    let item = visit_drawn_sale(&page, &instance, 30).await;
    page.until_text("#draw", "Enter the draw").await;
    page.click_until("#draw > .actions .button", "#draw", "This browser has saved").await;
    // Twenty others enter for the one unit.
    for buyer in 1..=20 {
        let path = format!("/api/items/{item}/entry");
        assert_eq!(instance.buyer(buyer).post(&path, &json!({})).await.status, 200);
    }
    // The page stays open, so it also saves the signed list before the round.
    page.until_text("#draw", "and the signed list").await;
    page.until_text("#draw", "Of 21 entries").await;
    let entry = instance.buyer(BUYER).get(&format!("/api/items/{item}/entry")).await.json;
    let place = entry["place"].as_i64().expect("a place");
    if place > 1 {
        page.until_text("#draw", "Why: ").await;
    }
    let kept = saved_file(&page).await;
    assert!(kept.contains("\nseckill draw head 3\n"), "{kept}");
    assert!(kept.contains(&format!("entry {}\n", entry["entry"].as_str().expect("an id"))));
    let proof = instance.stranger().get(&format!("/api/items/{item}/draw/entries")).await.text;
    let folder = TestFolder::new("verify");
    let proof = save(&folder, "proof.txt", &proof);
    let kept = save(&folder, "kept.txt", &kept);
    check_alone(&page, &one_file(&instance, &folder).await, &proof, &kept).await;
    let found = format!("Your entry is in the list. Its place is {place} of 21");
    page.until_text("#result", &found).await;
    page.until_text("#result", "Rules and list are as you saved them").await;
    if place > 1 {
        page.until_text("#result", "Entries before yours: ").await;
    }
    page.assert_accessible().await;
    page.close().await;
}

/// What this browser has saved says something else than the shop does now.
#[tokio::test]
async fn what_was_saved_stays() {
    let (_shop, instance) = shop().await;
    let item = drawn_sale(&instance, 600).await;
    let page = Page::of_buyer(&instance, DESKTOP, BUYER, &format!("/item.html?id={item}")).await;
    page.until_text("#draw", "Enter the draw").await;
    page.click_until("#draw > .actions .button", "#draw", "This browser has saved").await;
    // The rules were others when they were saved.
    let edit = "const all = JSON.parse(localStorage.getItem('seckill.draws')); \
        for (const own of Object.values(all)) own.announcement = own.announcement.replace('units 1', 'units 2'); \
        localStorage.setItem('seckill.draws', JSON.stringify(all));";
    page.run(edit).await;
    page.reload_until("#draw", "announces something else than this browser has saved").await;
    let kept = saved_file(&page).await;
    assert!(kept.contains("units 2\n"), "what was saved first stays: {kept}");
    // The shop has no entry any more, and it was not the page that took it back.
    let gone = instance.buyer(BUYER).request(Method::DELETE, &format!("/api/items/{item}/entry"));
    assert_eq!(Client::send(gone).await.status, 204);
    page.reload_until("#draw", "this browser has its signed promise").await;
    // The shop has another entry, and it was not the page that made it.
    let path = format!("/api/items/{item}/entry");
    assert_eq!(instance.buyer(BUYER).post(&path, &json!({})).await.status, 200);
    page.reload_until("#draw", "The shop has another entry").await;
    assert_eq!(saved_file(&page).await, kept, "the promise that was saved first stays");
    // The buyer changes it here: the newest promise counts.
    page.click_until("#draw > .actions .button", "#draw", "Enter the draw").await;
    page.click("#draw > .actions .button").await;
    page.until_text("#draw", "This browser has saved the shop’s signed promise").await;
    page.close().await;
}

/// Writes a file into a folder, and returns its path.
fn save(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path.to_string_lossy().into_owned()
}

/// Saves the checking page as a buyer does, into a folder where nothing else of the shop is; returns its address.
async fn one_file(instance: &Instance, folder: &Path) -> String {
    let saved = instance.stranger().get("/verify.html").await.text;
    for outside in [" src=\"", "url(", "@import", "import(", "http-equiv"] {
        let mut found = saved.match_indices(outside).map(|(at, _)| &saved[at + outside.len()..]);
        assert!(found.all(|rest| rest.starts_with("data:")), "it names another file: {outside}");
    }
    let mut links = saved.match_indices(" href=\"").map(|(at, found)| &saved[at + found.len()..]);
    assert!(links.all(|link| link.starts_with('#') || link.starts_with("data:")), "a link out");
    let path = folder.join("saved.html");
    std::fs::write(&path, saved).expect("written");
    format!("file://{}", path.display())
}

/// The file of planted frauds.
fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../crates/verify/vectors.json")).expect("vectors")
}

/// The checker of the page and that of `seckill verify draw` are given the same files.
#[tokio::test]
async fn page_finds_every_fraud() {
    let (_shop, instance) = Shop::open().await;
    let folder = TestFolder::new("verify");
    let address = one_file(&instance, &folder).await;
    instance.stop().await;
    let page = Page::open(SocketAddr::from(([127, 0, 0, 1], 9)), DESKTOP).await;
    page.visit_elsewhere(&address).await;
    page.until("the checker", "typeof DrawProof === 'object'").await;
    let vectors = vectors();
    // In parts, so that no script runs for long.
    let script = "const { texts, cases } = arguments[0]; \
        const textOf = (change) => { \
          if (change === undefined) return null; \
          const [name, at, remove, put] = typeof change === 'string' ? [change, 0, 0, ''] : change; \
          const text = texts[name].slice(0, at) + put + texts[name].slice(at + remove); \
          return DrawTexts.decode(Uint8Array.from(text, (one) => one.charCodeAt(0))); \
        }; \
        globalThis.found = null; \
        const check = ({ proof, announced, promise }) => \
          DrawProof.check(textOf(proof), { announced: textOf(announced), promise: textOf(promise) }); \
        return cases.map(check).map(({ faults, facts }) => ({ faults, isPublic: facts?.isPublic ?? null }));";
    let cases = vectors["cases"].as_array().expect("a list");
    for part in cases.chunks(50) {
        let given = json!({ "texts": vectors["texts"], "cases": part });
        let found = page.run_with(script, vec![given]).await;
        for (case, found) in part.iter().zip(found.as_array().expect("a list")) {
            let name = &case["name"];
            assert_eq!(found["faults"], case["faults"], "{name}");
            let is_proof = found["isPublic"] == true && case["faults"] == json!([]);
            assert_eq!(is_proof, case["exit"] == 0, "{name}");
        }
    }
    page.close().await;
}

/// With a public value the page says what follows from what, and what to compare. It answers nothing by its address.
#[tokio::test]
async fn page_tells_what_is_proven() {
    let (_shop, instance) = shop().await;
    let folder = TestFolder::new("verify");
    let address = one_file(&instance, &folder).await;
    let texts = vectors()["texts"].clone();
    let text = |name: &str| texts[name].as_str().expect("a text").to_owned();
    let proof = save(&folder, "proof.txt", &text("drand"));
    let kept = [text("announcement of drand"), text("promise of drand")].concat();
    let saved = save(&folder, "kept.txt", &kept);
    let page = Page::open(instance.addr, DESKTOP).await;
    check_alone(&page, &address, &proof, &saved).await;
    page.until_text("#result", "The places are right").await;
    for shown in
        ["Your entry is in the list", "ea4a6c63e29c520a", "657413", "Rules and list are as you"]
    {
        page.until_text("#result", shown).await;
    }
    page.assert_accessible().await;
    // The sender of a link must not choose a sentence or a proof that the page shows.
    let item = drawn_sale(&instance, 600).await;
    let entry = "00".repeat(16);
    let no_request =
        "performance.getEntriesByType('resource').every((one) => !one.name.includes('/api/'))";
    for mark in ['?', '#'] {
        let asked = format!("verify.html{mark}item={item}&entry={entry}");
        page.visit_elsewhere(&format!("http://{}/{asked}", instance.addr)).await;
        page.until("the page", "'ready' in document.documentElement.dataset").await;
        page.until("no result", "document.getElementById('result').hidden").await;
        page.until("no request", no_request).await;
        page.click_until("#form .button", "#result", "Choose the file").await;
    }
    let fraud = save(&folder, "fraud.txt", &text("drand").replace("units 2", "units 3"));
    let phone = Page::open(instance.addr, CHINESE_PHONE).await;
    check_alone(&phone, &address, &fraud, &saved).await;
    phone.until_text("#result", "证明有误").await;
    phone.until_text("#result", "抽签与您保存的内容不同").await;
    phone.assert_accessible().await;
    page.close().await;
    phone.close().await;
}
