//! The scheduler's page, which works without a server: as a file.

use super::*;

/// The steps in the address of the page.
const STEPS: &str = "return new URLSearchParams(location.hash.slice(1)).get('steps')";

fn address(schedule: &str) -> String {
    format!("file://{}/static/play.html#{schedule}", env!("CARGO_MANIFEST_DIR"))
}

/// On a phone. The page asks no server.
async fn open(schedule: &str) -> Page {
    let page = Page::open(SocketAddr::from(([127, 0, 0, 1], 9)), PHONE).await;
    show(&page, schedule).await;
    page
}

async fn show(page: &Page, schedule: &str) {
    page.visit_elsewhere(&address(schedule)).await;
    page.until("the program", "'ready' in document.documentElement.dataset").await;
}

/// A search brings the verdict and the units under it into the window of a phone. With the arbiter on every schedule is
/// searched, and none oversells. Without a fault a lock holds: then the verdict says what was left out.
#[tokio::test]
async fn one_click_finds_the_first_oversell() {
    let page = open("").await;
    page.click_until("#find", "#verdict", "Oversold: 2 orders for a stock of 1").await;
    page.until("red units", "document.querySelectorAll('#tiles [data-state=twice]').length === 2")
        .await;
    let seen = "[...document.querySelectorAll('#verdict, #tiles')].map((one) => one.getBoundingClientRect())\
         .every(({ top, bottom }) => top > -2 && bottom <= innerHeight)";
    page.until("the verdict and the units", seen).await;
    let steps = page.run(STEPS).await;
    assert_eq!(steps.as_str().map(|steps| steps.split('.').count()), Some(8), "{steps}");
    for (schedule, told) in [
        ("strategy=lock-redis&faults=lease,failover&arbiter=on", "No schedule oversells"),
        ("strategy=lock-redis", "without a fault: tick one above"),
    ] {
        // Another schedule alone would load nothing.
        page.visit_elsewhere("about:blank").await;
        show(&page, schedule).await;
        page.click_until("#find", "#verdict", told).await;
    }
    page.close().await;
}

#[tokio::test]
async fn a_link_shows_the_same_failure_and_a_keyboard_makes_the_steps() {
    let lost = "strategy=lock-redis-token&faults=lease&steps=0.0.e0.1.1.0.0.0.1.1.1";
    let page = open(lost).await;
    page.until_text("#verdict", "Oversold").await;
    for _ in 0..11 {
        page.press("u").await;
    }
    page.until_text("#verdict", "Nothing has happened yet").await;
    page.press("12").await;
    assert_eq!(page.run(STEPS).await, json!("0"), "the second buyer waits for the lock");
    // The list is numbered, and each buyer's place in it is said, to screen readers too.
    page.until_text("#columns .column:nth-child(1)", "step 2 of ").await;
    page.until_text("#columns .column:nth-child(2)", "step 1 of ").await;
    let said = "return [document.getElementById('step-1').getAttribute('aria-label'), \
         getComputedStyle(document.querySelector('.program li')).listStyleType]";
    let said = page.run(said).await;
    let label = said[0].as_str().expect("a label");
    assert!(label.contains("Buyer 2: waits, step 1 of "), "{label}");
    assert_eq!(said[1], "decimal");
    page.close().await;
}
