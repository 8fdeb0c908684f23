//! What a request accepts: each media type that the document names, in the forms in which clients name it.

use super::access::{Testbed, document, documented, operations};
use crate::support::prelude::*;

/// How clients write a media type.
fn forms(media: &str) -> Vec<String> {
    let kind = media.split('/').next().unwrap_or_default();
    vec![
        media.to_owned(),
        format!("{media}; charset=utf-8"),
        format!("text/html, {media};q=0.1"),
        format!("{}; q=0.001", media.to_uppercase()),
        format!("{kind}/*;q=0.5, image/png"),
    ]
}

/// No operation refuses a media type that the document names for it.
#[tokio::test]
async fn each_operation_gives_what_its_description_names() {
    let (_shop, testbed) = Testbed::open().await;
    let document = document();
    let mut asked = 0;
    for (method, path, operation) in documented(&document) {
        let known = operations();
        let known = known.iter().find(|it| it.path == path && it.method.as_str() == method);
        let known = known.unwrap_or_else(|| panic!("{method} {path} is not in the list"));
        let responses = operation["responses"].as_object().expect("responses").values();
        let contents = responses.filter_map(|response| response["content"].as_object());
        for accept in contents.flat_map(serde_json::Map::keys).flat_map(|media| forms(media)) {
            // Without a token: what is accepted is looked at before who asks.
            let request = testbed.request(known, &testbed.instance.stranger()).await;
            let answer = request.header("accept", &accept).send().await.expect("an answer");
            assert_ne!(answer.status(), 406, "{method} {path}, Accept: {accept}");
            asked += 1;
        }
    }
    assert!(asked > 500, "{asked}");
    for accepted in ["*/*", "text/html, */*;q=0.1"] {
        let request = testbed.instance.stranger().request(Method::GET, "/api/items");
        Client::send(request.header("accept", accepted)).await.expect_status(200);
    }
    for refused in ["application/json;q=0", "text/html", "*/*;q=0", "audio/*", ""] {
        let request = testbed.instance.stranger().request(Method::GET, "/api/items");
        let answer = Client::send(request.header("accept", refused)).await;
        assert_problem(&answer, (406, "not_acceptable"), refused);
    }
}

/// An export without `format` is in the one that the request wants most.
#[tokio::test]
async fn an_export_is_in_the_form_that_is_accepted() {
    let (_shop, instance) = Shop::open().await;
    for (accept, kind) in [
        ("text/csv", "text/csv; charset=utf-8"),
        ("*/*", "text/csv; charset=utf-8"),
        ("application/jsonl", "application/jsonl"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("text/csv;q=0.5, application/x-ndjson", "application/x-ndjson"),
        ("application/x-ndjson;q=0.5, text/*", "text/csv; charset=utf-8"),
    ] {
        let request = instance.admin().request(Method::GET, "/api/admin/export");
        let answer = Client::send(request.header("accept", accept)).await;
        assert_eq!(answer.status, 200, "{accept}");
        assert_eq!(answer.headers["content-type"], kind, "{accept}");
        assert_eq!(answer.text.starts_with('{'), kind.starts_with("application"), "{accept}");
    }
}
