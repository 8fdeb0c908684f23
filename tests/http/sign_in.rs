//! Accounts: signing up, signing in, and the limits on attempts.

use argon2::Argon2;
use argon2::password_hash::PasswordHasher;
use ledger::rows::users::{self, NewAccount};
use seckill::account::password;
use shop_domain::Username;

use super::{PASSWORD, apart_from_the_request_id, sign_in, sign_up};
use crate::support::prelude::*;

#[tokio::test]
async fn a_name_is_given_once_however_it_is_written() {
    let (_shop, instance) = Shop::open().await;
    let stranger = instance.stranger();
    let made = sign_up(&stranger, "Zoë", PASSWORD).await.expect_status(201);
    let user = made.json["user_id"].as_i64().expect("an id");
    assert!(user > 0);
    // Upper case, a combining mark, full-width letters.
    for taken in ["Zoë", "ZOË", "zoe\u{308}", "Ｚｏë"] {
        assert_problem(&sign_up(&stranger, taken, PASSWORD).await, (409, "username_taken"), taken);
    }
    sign_up(&stranger, "Zoe", PASSWORD).await.expect_status(201);
    for name in ["zoë", "ＺＯË"] {
        let session = sign_in(&stranger, name, PASSWORD).await;
        assert_eq!((session.status, session.json["user_id"].as_i64()), (200, Some(user)), "{name}");
        assert_eq!(session.json["role"], "buyer");
    }
    // Names that look the same are one, too. Each is of one script: Cyrillic letters, a digit one, a zero.
    for (name, look_alike) in
        [("coco", "\u{441}\u{43e}\u{441}\u{43e}"), ("paul", "pau1"), ("bob", "B0B")]
    {
        assert_eq!(sign_up(&stranger, name, PASSWORD).await.status, 201, "{name}");
        let second = sign_up(&stranger, look_alike, PASSWORD).await;
        assert_problem(&second, (409, "username_taken"), look_alike);
        let wrong = sign_in(&stranger, look_alike, PASSWORD).await;
        assert_problem(&wrong, (401, "invalid_credentials"), look_alike);
    }
    for name in "user-2.b_c 王小明 Иван さくら 김철수 محمد สมชาย 王小明abc".split(' ')
    {
        assert_eq!(sign_up(&stranger, name, PASSWORD).await.status, 201, "{name}");
        assert_eq!(sign_in(&stranger, name, PASSWORD).await.status, 200, "{name}");
    }
    // One of many who ask for it at once gets it.
    let twins = ["Twin", "twin", "TWIN"].map(|name| sign_up(&stranger, name, PASSWORD));
    let mut statuses = join_all(twins).await.iter().map(|made| made.status).collect::<Vec<_>>();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409]);
}

#[tokio::test]
async fn names_and_passwords_that_are_not_acceptable_are_refused() {
    let (shop, instance) = Shop::open().await;
    let stranger = instance.stranger();
    let long = "x".repeat(33);
    // The last two: a Hangul filler, which is not seen, and a Cyrillic letter among Latin ones.
    let names =
        "| |a b|a\r\nb|a\u{1b}[31mb|a\0b|<b>|a/b|\u{200b}|'; --|operator\u{3164}|\u{43e}perator";
    for name in names.split('|').chain([long.as_str()]) {
        let what = format!("the name {name:?}");
        assert_problem(&sign_up(&stranger, name, PASSWORD).await, (422, "invalid_username"), &what);
    }
    let (long, longest) = ("x".repeat(257), "x".repeat(256));
    for bad in ["", "short", "1234567", "ööööööö", long.as_str()] {
        let what = format!("a password of {} bytes", bad.len());
        assert_problem(&sign_up(&stranger, "name", bad).await, (422, "invalid_password"), &what);
    }
    assert_eq!(shop.number("SELECT COUNT(*) FROM users").await, 0);
    assert_eq!(sign_up(&stranger, "name", &longest).await.status, 201);
    assert_eq!(sign_in(&stranger, "name", &longest).await.status, 200);
}

#[tokio::test]
async fn a_password_is_the_same_however_its_letters_are_composed() {
    let (shop, instance) = Shop::open().await;
    let stranger = instance.stranger();
    let (composed, decomposed) = ("passwörd\u{a0}für Zoë", "passwo\u{308}rd fu\u{308}r Zoe\u{308}");
    for (name, set, typed) in
        [("composed", composed, decomposed), ("decomposed", decomposed, composed)]
    {
        assert_eq!(sign_up(&stranger, name, set).await.status, 201);
        for password in [set, typed] {
            let session = sign_in(&stranger, name, password).await;
            assert_eq!(session.status, 200, "{name} with {password:?}: {}", session.text);
        }
    }
    // A hash of a password as it was typed, from before passwords were normalised.
    let hash = Argon2::default().hash_password(decomposed.as_bytes()).expect("a hash").to_string();
    let older = "UPDATE users SET password_hash = ? WHERE username = 'composed'";
    shop.change(sqlx::query(older).bind(hash)).await;
    assert_eq!(sign_in(&stranger, "composed", decomposed).await.status, 200, "an older hash");
    assert_eq!(sign_in(&stranger, "composed", PASSWORD).await.status, 401);
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_name_are_answered_alike() {
    let (_shop, instance) = Shop::open().await;
    let stranger = instance.stranger();
    sign_up(&stranger, "somebody", PASSWORD).await;
    let wrong = sign_in(&stranger, "somebody", "not the password").await;
    assert_problem(&wrong, (401, "invalid_credentials"), "a wrong password");
    assert!(!wrong.headers.contains_key("set-cookie"));
    let long = "x".repeat(300);
    for (name, password) in [
        ("nobody", PASSWORD),
        ("nobody", "nobody's password"),
        ("no such name", PASSWORD),
        ("somebody", long.as_str()),
        ("somebody' OR '1'='1", PASSWORD),
        ("some%", PASSWORD),
    ] {
        let answer = sign_in(&stranger, name, password).await;
        assert_problem(&answer, (401, "invalid_credentials"), name);
        assert_eq!(apart_from_the_request_id(&answer), apart_from_the_request_id(&wrong), "{name}");
    }
}

#[tokio::test]
async fn after_ten_failures_a_name_has_to_wait() {
    let (_shop, instance) = Shop::open().await;
    let stranger = instance.stranger();
    for name in ["victim", "bystander"] {
        sign_up(&stranger, name, PASSWORD).await;
    }
    // All at once, so that none of them waits for another's failure to be counted; no more than may
    // wait for their hash.
    let tries = (0..30).map(|number| {
        let client = instance.stranger();
        // A name's spellings are one name.
        let name = if number % 2 == 0 { "victim" } else { "VICTIM" };
        async move { sign_in(&client, name, "a guess of somebody").await }
    });
    let answers = join_all(tries).await;
    let guesses = answers.iter().filter(|answer| answer.status == 401).count();
    assert!((1..=10).contains(&guesses), "{guesses} passwords were tried");
    for answer in answers.iter().filter(|answer| answer.status != 401) {
        assert_problem(answer, (429, "too_many_attempts"), "one more guess");
        assert!(answer.headers.contains_key("retry-after"));
    }
    sign_in(&stranger, "victim", PASSWORD).await.expect_problem(429, "too_many_attempts");
    // An unknown name is answered like a known one, and other accounts stay open.
    assert_eq!(sign_in(&stranger, "bystander", PASSWORD).await.status, 200);
}

#[tokio::test]
async fn demo_accounts_work_only_where_they_are_allowed() {
    let shop = Shop::new().await;
    let hash = password::hash(PASSWORD).expect("a hash");
    let demo = NewAccount {
        username: &Username::parse("admin").expect("a name"),
        password_hash: &hash,
        role: Role::Admin.as_str(),
        demo: true,
    };
    users::create(&shop.pool, &demo, OffsetDateTime::now_utc()).await.expect("made").expect("free");
    let refused = sign_in(&shop.start().await.stranger(), "admin", PASSWORD).await;
    assert_problem(&refused, (401, "invalid_credentials"), "a demo account");
    let instance = shop.start_with(|config| config.demo_accounts = true).await;
    let session = sign_in(&instance.stranger(), "admin", PASSWORD).await;
    session.assert_fields(200, json!({ "role": "admin" }));
    let operator = instance.signed_in(&session);
    assert_eq!(operator.get("/api/admin/items/1/audit").await.brief(), (404, "item_not_found"));
}
