//! Names that look like others', and passwords that are typed in two ways.

use argon2::Argon2;
use argon2::password_hash::PasswordHasher;

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
