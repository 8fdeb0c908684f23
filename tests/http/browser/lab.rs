//! The lab: a run is set up, watched, read and taken along.

use super::*;

/// The red of the page in the light: what is oversold must have it.
const HOT: &str = "rgb(180, 35, 26)";

#[tokio::test]
async fn a_lab_run_ends_with_an_oversold_naive_strategy_in_red() {
    let (_shop, instance) = Shop::open().await;
    let page = Page::of_operator(&instance, DESKTOP, "/lab.html").await;
    page.until("the strategies", "document.querySelectorAll('#safe .pick').length > 5").await;
    let pick = "for (const box of document.querySelectorAll('#picker input')) \
         if (box.checked !== ['mysql-naive', 'mysql-atomic'].includes(box.value)) box.click();";
    page.run(pick).await;
    for (field, value) in [("#stock", "20"), ("#buyers", "200"), ("#concurrency", "50")] {
        page.fill(field, value).await;
    }
    page.click("#run").await;
    page.until("two lanes", "document.querySelectorAll('.lane').length === 2").await;
    page.until_text("#stage-state", "Finished").await;
    let lane = |name: &str, rest: &str| {
        format!(
            "[...document.querySelectorAll('.lane')].some((lane) => \
             lane.querySelector('h3').innerText === '{name}' && {rest})"
        )
    };
    let red = format!(
        "lane.dataset.verdict === 'oversold' && lane.querySelector('.lane-big').innerText[0] === '+' \
         && getComputedStyle(lane.querySelector('.lane-big')).color === '{HOT}'"
    );
    page.until("the naive lane in red", &lane("mysql-naive", &red)).await;
    page.until("the other one clean", &lane("mysql-atomic", "lane.dataset.verdict === 'clean'"))
        .await;
    page.until_text("#stage-oversold", "oversold").await;
    page.until_text("#results td.bad", "").await;

    // The report is one file that asks for nothing.
    let keep = "const real = URL.createObjectURL; URL.createObjectURL = (blob) => \
         { blob.text().then((text) => { window.report = text; }); return real(blob); };";
    page.run(keep).await;
    page.click("#export").await;
    page.until("the report", "window.report").await;
    let report = page.run("return window.report").await;
    let report = report.as_str().expect("text");
    for part in ["<!doctype html>", "mysql-naive", "mysql-atomic", "<svg", "<table", "<style>"] {
        assert!(report.contains(part), "no {part} in the report");
    }
    for foreign in ["<script", "<link", "src=", "url(", "href="] {
        assert!(!report.contains(foreign), "{foreign} in the report");
    }
    page.close().await;
}

/// An experiment starts at a press and is found later, and a run is stopped.
#[tokio::test]
async fn everyone_may_read_the_gallery_and_operators_run_it() {
    let (_shop, instance) = Shop::open().await;
    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_until("/lab.html", "#gallery", "The remedy").await;
    page.until_text("#door", "This page is for operators").await;
    page.click("#gallery li:first-child .break").await;
    page.until("the sign-in page", "location.pathname === '/signin.html'").await;
    // Signing in would lead a buyer back here without a word.
    page.visit_as(&instance, 9, Role::Buyer, "/lab.html").await;
    page.until_text("#gallery", "The remedy").await;
    page.run("window.stays = true").await;
    page.click("#gallery li:first-child .break").await;
    page.until_text("#announcer", "This account is not an operator’s").await;
    let seen = "window.stays && (() => { \
         const { top, bottom } = document.getElementById('door').getBoundingClientRect(); \
         return top >= 0 && bottom <= innerHeight; })()";
    page.until("the door", seen).await;

    page.visit_as(&instance, 1, Role::Admin, "/lab.html").await;
    page.until_text("#gallery", "The lost update").await;
    page.click("#gallery li:first-child .break").await;
    page.until("its lanes", "document.querySelectorAll('.lane').length === 2").await;
    page.until_text(".lane:first-child h3", "mysql-naive").await;
    page.until("its end", "!document.getElementById('export').hidden").await;
    // Who comes later finds it.
    page.visit_until("/lab.html", "#runs", "mysql-naive, mysql-atomic").await;
    page.click("#runs button").await;
    page.until("its lanes", "document.querySelectorAll('.lane').length === 2").await;
    let runs = instance.admin().get("/api/lab/runs").await.json["runs"].clone();
    assert_ne!(runs[0]["state"], json!("running"), "{runs}");

    // Whoever does not get the lock sleeps for two seconds, so it takes minutes.
    let long = json!({
        "strategies": ["lock-redis?wait=sleep-2000"], "stock": 10_000, "buyers": 120,
        "requests": 100_000, "concurrency": 50,
    });
    let started = instance.admin().post("/api/lab/runs", &long).await.expect_status(202);
    let path = format!("/api/lab/runs/{}", started.json["id"].as_str().expect("an id"));
    page.visit_until("/lab.html", "#runs", "lock-redis").await;
    page.click_until("#runs button", "#stage-state", "Running").await;
    assert_eq!(instance.admin().get(&path).await.json["state"], "running");
    page.click_until("#stop", "#stage-state", "Stopped").await;
    page.until("its end", "document.getElementById('stop').hidden").await;
    assert_eq!(instance.admin().get(&path).await.json["state"], "cancelled");
    page.close().await;
}
