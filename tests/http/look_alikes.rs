//! Names that look like others', and passwords that are typed in two ways.

use argon2::Argon2;
use argon2::password_hash::PasswordHasher;
use ledger::schema;

use super::{PASSWORD, assert_problem, sign_in, sign_up};
use crate::support::Shop;

#[tokio::test]
async fn names_that_look_the_same_are_given_once() {
    let (_shop, instance) = Shop::open().await;
    let stranger = instance.stranger();
    // Each is of one script. Cyrillic letters, a digit one, a zero.
    for (name, look_alike) in
        [("coco", "\u{441}\u{43e}\u{441}\u{43e}"), ("paul", "pau1"), ("bob", "B0B")]
    {
        assert_eq!(sign_up(&stranger, name, PASSWORD).await.status, 201, "{name}");
        let second = sign_up(&stranger, look_alike, PASSWORD).await;
        assert_problem(&second, (409, "username_taken"), look_alike);
        let wrong = sign_in(&stranger, look_alike, PASSWORD).await;
        assert_problem(&wrong, (401, "invalid_credentials"), look_alike);
    }
    for name in
        ["zoe", "user-2.b_c", "王小明", "Иван", "さくら", "김철수", "محمد", "สมชาย", "王小明abc"]
    {
        assert_eq!(sign_up(&stranger, name, PASSWORD).await.status, 201, "{name}");
        assert_eq!(sign_in(&stranger, name, PASSWORD).await.status, 200, "{name}");
    }
}

#[tokio::test]
async fn accounts_from_before_are_compared_too_and_still_open() {
    let (shop, instance) = Shop::open().await;
    let stranger = instance.stranger();
    assert_eq!(sign_up(&stranger, "operator", PASSWORD).await.status, 201);
    // As older releases wrote them: without a skeleton, and one with a character that is not seen.
    shop.change(sqlx::query("UPDATE users SET username_skeleton = NULL")).await;
    let older = "INSERT INTO users (username, username_folded, password_hash, role, created_at) \
         SELECT ?, ?, password_hash, role, created_at FROM users";
    shop.change(sqlx::query(older).bind("operator\u{3164}").bind("operator\u{1160}")).await;
    schema::migrate(&shop.config, &shop.pool).await.expect("filled in");
    let skeletons = "SELECT username_skeleton = 'operator' FROM users ORDER BY id";
    let skeletons: Vec<Option<i64>> = shop.read_all(sqlx::query_scalar(skeletons)).await;
    assert_eq!(skeletons, [Some(1), None], "the older account has it");
    for name in ["operator", "operator\u{3164}"] {
        assert_eq!(sign_in(&stranger, name, PASSWORD).await.status, 200, "{name:?}");
    }
    sign_up(&stranger, "0perator", PASSWORD).await.expect_problem(409, "username_taken");
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
