//! Names and pictures of items: what a page could be made to show by them is refused.

use serde_json::json;

use super::assert_problem;
use crate::support::{Shop, item_body};

#[tokio::test]
async fn a_picture_is_ours_or_of_a_plain_https_address() {
    let (_shop, instance) = Shop::open().await;
    let operator = instance.admin();
    for url in [
        // Browsers read a backslash as a slash: these lead to another host.
        "/\\evil.example/x.png",
        "\\\\evil.example/x.png",
        "/pictures\\x.png",
        "https:\\\\evil.example/x.png",
        "https://shop.example\\@evil.example/x.png",
        "https://user:password@shop.example/x.png",
        "https://user@shop.example/x.png",
        "https://@shop.example/x.png",
        "https:///x.png",
        "https://",
        "https://:443/x.png",
        "https://shop.example:port/x.png",
        "//evil.example/x.png",
        "http://shop.example/x.png",
        "javascript:alert(1)",
        "/with space.png",
        "",
    ] {
        let answer =
            operator.post("/api/admin/items", &item_body(json!({ "image_url": url }))).await;
        assert_problem(&answer, (422, "invalid_text"), url);
    }
    for url in [
        "/pictures/x.png",
        "/x.png?of=a@b",
        "https://shop.example/x.png",
        "https://shop.example:8443/a@b.png?c=d@e",
        "https://[2001:db8::1]/x.png",
        "https://shop.example",
    ] {
        instance.make_item(json!({ "image_url": url })).await;
    }
}

#[tokio::test]
async fn a_name_is_one_line_that_can_be_seen() {
    let (_shop, instance) = Shop::open().await;
    let operator = instance.admin();
    for name in [
        "\u{200b}",
        "\u{200b}\u{200d}\u{feff}",
        "\u{3164}",
        "\u{2800}",
        " \u{2060} ",
        "two\nlines",
        "two\r\nlines",
        "two\u{2028}lines",
        "two\u{2029}lines",
        "two\u{85}lines",
        "a\ttab",
        "a\u{7}bell",
        "turned \u{202e}round",
        "turned \u{2067}round",
    ] {
        let answer = operator.post("/api/admin/items", &item_body(json!({ "name": name }))).await;
        assert_problem(&answer, (422, "invalid_text"), &format!("{name:?}"));
    }
    for name in ["A thing", "限量版", "Чай", "a family \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}"]
    {
        instance.make_item(json!({ "name": name })).await;
    }
    // A description may have lines, and be empty; it turns nothing round either.
    instance.make_item(json!({ "description": "two\nlines" })).await;
    let turned = item_body(json!({ "description": "turned \u{202e}round" }));
    let answer = operator.post("/api/admin/items", &turned).await;
    assert_problem(&answer, (422, "invalid_text"), "a description that is turned round");
}
