//! Other shops: their numbers and tokens, on the command line and over HTTP, and their guests.

use crate::support::prelude::*;

/// Runs `seckill shop`; answers the token that it prints.
async fn token(shop: &Shop, action: &str, name: &str) -> String {
    let done = program(shop, &["shop", action, name]).output().await.expect("the program runs");
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{told}");
    let printed = String::from_utf8(done.stdout).expect("text");
    assert!(printed.starts_with("sk1.") && printed.lines().count() == 1, "{printed}");
    printed.trim().to_owned()
}

/// The orders of a guest.
async fn orders(program: &Client) -> Answer {
    program.as_guest("anna", Method::GET, "/api/orders", None).await
}

async fn is_refused(program: &Client) {
    until(BOUND, || orders(program), |answer| answer.brief() == (401, "invalid_token")).await;
}

async fn two_instances() -> (Shop, Instance, Instance) {
    let (shop, here) = Shop::open_with(|config| config.session.revocation_period_ms = 100).await;
    let there = shop.start().await;
    (shop, here, there)
}

/// The account that has the number of a shop ends its own tokens, and the shop ends its own.
#[tokio::test]
async fn a_shop_is_no_account() {
    let (shop, here, there) = two_instances().await;
    let first = here.stranger().with_token(&token(&shop, "create", "toys").await);
    let second = here.stranger().with_token(&token(&shop, "token", "toys").await);
    assert_eq!((orders(&first).await.status, orders(&second).await.status), (200, 200));
    // An account with the same number signs out everywhere.
    let id = shop.number("SELECT id FROM shops").await;
    let account = here.buyer(id);
    let ended = account.delete("/api/sessions").await;
    assert_eq!((ended.status, account.get("/api/orders").await.status), (204, 401));
    let third = here.stranger().with_token(&token(&shop, "token", "toys").await);
    // Each instance has heard of it, and the tokens of the shop are as before.
    there.buyer(id).until("/api/orders", |seen| seen.status == 401).await;
    for program in [&first, &second, &third] {
        let token = program.token().expect("it has one");
        assert_eq!(orders(program).await.status, 200);
        assert_eq!(orders(&there.stranger().with_token(token)).await.status, 200);
    }
    // The shop signs one of its tokens out, and not all of them.
    let all = first.delete("/api/sessions").await.expect_problem(403, "forbidden");
    assert!(all.json["detail"].as_str().is_some_and(|detail| detail.contains("shop rotate")));
    first.delete("/api/session").await.expect_status(204);
    assert_problem(&orders(&first).await, (401, "invalid_token"), "the token that was signed out");
    assert_eq!(orders(&second).await.status, 200);
}

/// Rotating a shop, and ending it, ends its tokens and open streams on all instances, and those of no account.
#[tokio::test]
async fn a_shop_that_is_rotated_or_ended_has_no_older_token() {
    let (shop, here, there) = two_instances().await;
    let mut before = token(&shop, "create", "toys").await;
    let other = there.stranger().with_token(&token(&shop, "create", "books").await);
    let id = shop.number("SELECT id FROM shops WHERE name = 'toys'").await;
    for action in ["rotate", "end"] {
        let programs = [&here, &there].map(|instance| instance.stranger().with_token(&before));
        let watch = programs[1].request(Method::GET, "/api/orders/events");
        let mut stream = Events::open(watch.header("Buyer-Reference", "anna")).await;
        assert_eq!(orders(&programs[0]).await.status, 200);
        if action == "rotate" {
            before = token(&shop, "rotate", "toys").await;
            // The new token works at once.
            for instance in [&here, &there] {
                assert_eq!(orders(&instance.stranger().with_token(&before)).await.status, 200);
            }
        } else {
            assert_eq!(run(&shop, &["shop", "end", "toys"]).await.0, 0);
        }
        for program in &programs {
            is_refused(program).await;
        }
        assert!(stream.ends(BOUND).await, "{action}: the stream of a dead token is open");
        let late = shop.start().await;
        let late = late.stranger().with_token(programs[0].token().expect("one"));
        assert_eq!(orders(&late).await.status, 401);
    }
    assert_eq!(orders(&other).await.status, 200);
    assert_eq!(here.buyer(id).get("/api/orders").await.status, 200);
    // A shop that has ended stays so, and keeps its name.
    for action in ["token", "rotate", "end", "create"] {
        let sentence = if action == "create" { "is taken" } else { "no shop toys" };
        run_says(&shop, &["shop", action, "toys"], (1, sentence)).await;
    }
    let (_, listed) = run(&shop, &["shop", "list"]).await;
    let has = |state: &str, name: &str| {
        listed.lines().any(|line| line.contains(state) && line.ends_with(&format!("\t{name}")))
    };
    assert!(has("\tended\t", "toys") && has("\topen\t0\t", "books"), "{listed}");
    run_says(&shop, &["shop", "create", "two words"], (2, "1 to 64")).await;
    run_says(&shop, &["token", "--user", "5", "--role", "shop"], (2, "seckill shop create")).await;
}

/// The keys of the table decide: each reference of each shop is one buyer, whom nobody else is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_shops_never_share_a_buyer() {
    let (shop, here, there) = two_instances().await;
    let item = here.make_item(json!({ "stock": 10, "per_buyer_limit": 2 })).await;
    let programs =
        [shop.make_program(&here, "toys").await, shop.make_program(&there, "books").await];
    let body = json!({ "lines": [{ "item_id": item }] });
    // Many requests for one guest at once make one buyer, whose limit counts.
    let sent = (0..12).map(|number| {
        let program = &programs[number % 2];
        program.as_guest("anna", Method::POST, "/api/reservations", Some(&body))
    });
    let answers = join_all(sent).await;
    let sold: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(sold.len(), 4, "two for each shop's anna");
    let buyers: HashSet<i64> =
        sold.iter().map(|answer| answer.json["user_id"].as_i64().expect("an id")).collect();
    assert_eq!((buyers.len(), shop.number("SELECT COUNT(*) FROM guests").await), (2, 2));
    assert!(buyers.iter().all(|id| (1 << 52..1 << 53).contains(id)), "{buyers:?}");
    // An order is that of one guest of one shop: for each of the others, and for accounts, it does not exist.
    let path = format!("/api/orders/{}", order_id(sold[0]));
    let cancellation = format!("{path}/cancellation");
    here.buyer(1).get(&path).await.expect_problem(404, "order_not_found");
    let mut found = Vec::new();
    for (at, reference) in [(0, "anna"), (1, "anna"), (0, "Anna"), (1, "Anna")] {
        let program = &programs[at];
        let seen = program.as_guest(reference, Method::GET, &path, None).await;
        let none = json!({});
        let step = program.as_guest(reference, Method::POST, &cancellation, Some(&none)).await;
        match seen.status {
            200 => found.push((seen.json["lines"].clone(), step.json["status"].clone())),
            _ => assert_problem(&step, (404, "order_not_found"), reference),
        }
    }
    assert_eq!(found, [(sold[0].json["lines"].clone(), json!("cancelled"))]);
    // No second reference can have the buyer of the first.
    let double = "INSERT INTO guests (shop_id, reference, user_id, created_at) \
         SELECT shop_id, 'ben', user_id, created_at FROM guests LIMIT 1";
    assert!(sqlx::query(double).execute(&shop.pool).await.is_err(), "two guests are one buyer");
    assert_clean(&here, item).await;
}

/// A known reference says nothing of the buyer's number: after the guest was erased, another number belongs to it, at
/// once and on each instance.
#[tokio::test]
async fn a_guest_who_was_erased_begins_again() {
    let (shop, here, there) = two_instances().await;
    let item = here.make_item(json!({ "per_buyer_limit": 1 })).await;
    let program = shop.make_program(&here, "toys").await;
    let abroad = there.stranger().with_token(program.token().expect("it has one"));
    let body = json!({ "lines": [{ "item_id": item }] });
    let buy = async |program: &Client| -> (i64, Value) {
        let made = program.as_guest("anna", Method::POST, "/api/reservations", Some(&body)).await;
        let path = format!("/api/orders/{}/cancellation", order_id(&made));
        program.as_guest("anna", Method::POST, &path, Some(&json!({}))).await;
        (made.json["user_id"].as_i64().expect("an id"), made.json)
    };
    let (first, _) = buy(&program).await;
    assert_eq!(buy(&abroad).await.0, first, "each instance knows the guest");
    here.admin().delete(&format!("/api/admin/users/{first}")).await.expect_status(204);
    assert_eq!(shop.number("SELECT COUNT(*) FROM guests").await, 0);
    let (second, _) = buy(&abroad).await;
    assert_ne!(second, first);
    assert_eq!(buy(&program).await.0, second);
    assert_clean(&here, item).await;
}

/// A ledger that is an older copy does not know a newer shop: its token is refused, and nothing is written.
#[tokio::test]
async fn a_shop_that_the_ledger_does_not_know_has_no_guests() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    let program = shop.make_program(&instance, "toys").await;
    shop.change(sqlx::query("DELETE FROM shops")).await;
    let body = json!({ "lines": [{ "item_id": item }] });
    let refused = program.as_guest("anna", Method::POST, "/api/reservations", Some(&body)).await;
    assert_problem(&refused, (401, "invalid_token"), "an unknown shop");
    assert_eq!(shop.number("SELECT COUNT(*) FROM guests").await, 0);
    assert_clean(&instance, item).await;
}
