//! Who may do what: every operation of the document by every kind of caller.

use super::ledger::Ledger;
use crate::support::prelude::*;

/// Who may use an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Anyone,
    Buyer,
    /// The buyer to whom the order or session belongs.
    Owner,
    Admin,
    /// The program of a shop.
    Shop,
}

/// An operation with its own smallest valid request.
pub(super) struct Operation {
    pub(super) method: Method,
    /// As the document writes it.
    pub(super) path: &'static str,
    who: Who,
    body: Option<Value>,
    /// The status for a permitted caller.
    status: u16,
}

pub(super) fn operations() -> Vec<Operation> {
    let operation = |method: &str, path, who, body, status| Operation {
        method: method.parse().expect("a method"),
        path,
        who,
        body,
        status,
    };
    let credentials = json!({ "username": "somebody", "password": "long enough" });
    let passwords =
        json!({ "current_password": "long enough", "new_password": "longer yet, enough" });
    let group = json!({ "name": "Consoles", "per_buyer_limit": 2 });
    let endpoint = json!({ "target": "https://shop.example/in" });
    let enabled = json!({ "enabled": true });
    let replay = json!({ "first": 1 });
    let message = json!({ "type": "payment.succeeded" });
    vec![
        operation("GET", "/api/items", Who::Anyone, None, 200),
        operation("GET", "/api/items/{id}", Who::Anyone, None, 200),
        operation("GET", "/api/items/{id}/events", Who::Anyone, None, 200),
        operation("POST", "/api/items/{id}/ticket", Who::Buyer, None, 409),
        operation("DELETE", "/api/items/{id}/ticket", Who::Buyer, None, 409),
        operation("POST", "/api/seckill/{strategy}/{item_id}", Who::Buyer, None, 201),
        operation("POST", "/api/reservations", Who::Buyer, Some(json!({ "lines": [] })), 422),
        // Its body is lines of JSON, and this one is JSON.
        operation("POST", "/api/reservations/batch", Who::Shop, Some(json!({})), 415),
        operation("GET", "/api/orders", Who::Buyer, None, 200),
        operation("GET", "/api/orders/events", Who::Buyer, None, 200),
        operation("GET", "/api/orders/{id}", Who::Owner, None, 200),
        operation("POST", "/api/orders/{id}/payment", Who::Owner, None, 200),
        operation("POST", "/api/orders/{id}/cancellation", Who::Owner, None, 409),
        operation("POST", "/api/orders/{id}/extension", Who::Owner, None, 409),
        operation("POST", "/api/orders/{id}/return", Who::Owner, None, 409),
        operation("POST", "/api/users", Who::Anyone, Some(credentials.clone()), 201),
        operation("POST", "/api/session", Who::Anyone, Some(credentials), 200),
        operation("DELETE", "/api/session", Who::Buyer, None, 204),
        operation("GET", "/api/strategies", Who::Anyone, None, 200),
        operation("GET", "/api/locks", Who::Anyone, None, 200),
        operation("POST", "/api/admin/items", Who::Admin, Some(item_body(json!({}))), 201),
        operation("PATCH", "/api/admin/items/{id}", Who::Admin, Some(json!({})), 200),
        operation("GET", "/api/admin/items/{id}/audit", Who::Admin, None, 200),
        operation("GET", "/api/admin/limit-groups", Who::Admin, None, 200),
        operation("POST", "/api/admin/limit-groups", Who::Admin, Some(group), 201),
        operation("GET", "/api/products/{id}", Who::Anyone, None, 404),
        operation("GET", "/api/admin/products", Who::Admin, None, 200),
        operation("POST", "/api/admin/products", Who::Admin, Some(json!({ "name": "Shirt" })), 201),
        // Units are left, and so nobody has to wait.
        operation("GET", "/api/items/{id}/waiting", Who::Buyer, None, 200),
        operation("POST", "/api/items/{id}/waiting", Who::Buyer, None, 409),
        operation("DELETE", "/api/items/{id}/waiting", Who::Buyer, None, 204),
        operation("POST", "/api/items/{id}/waiting/purchase", Who::Buyer, None, 409),
        // The item is not drawn.
        operation("GET", "/api/items/{id}/entry", Who::Buyer, None, 200),
        operation("POST", "/api/items/{id}/entry", Who::Buyer, None, 409),
        operation("DELETE", "/api/items/{id}/entry", Who::Buyer, None, 409),
        operation("GET", "/api/items/{id}/draw", Who::Anyone, None, 409),
        operation("GET", "/api/items/{id}/draw/announcement", Who::Anyone, None, 409),
        operation("GET", "/api/items/{id}/draw/entries", Who::Anyone, None, 409),
        operation("GET", "/api/admin/items/{id}/draw", Who::Admin, None, 409),
        operation("GET", "/api/admin/actions", Who::Admin, None, 200),
        operation("GET", "/api/admin/export", Who::Admin, None, 200),
        // A table is CSV, and this body is JSON.
        operation("POST", "/api/admin/import", Who::Admin, Some(json!({})), 415),
        operation("GET", "/api/admin/endpoints", Who::Admin, None, 200),
        // Events are switched off here.
        operation("POST", "/api/admin/endpoints", Who::Admin, Some(endpoint), 409),
        operation("PATCH", "/api/admin/endpoints/{id}", Who::Admin, Some(enabled), 404),
        operation("DELETE", "/api/admin/endpoints/{id}", Who::Admin, None, 404),
        operation("POST", "/api/admin/endpoints/{id}/replays", Who::Admin, Some(replay), 422),
        operation("GET", "/api/admin/endpoints/{id}/dead-letters", Who::Admin, None, 200),
        operation("GET", "/api/admin/events", Who::Admin, None, 200),
        // The provider of the demo sends no messages.
        operation("POST", "/api/payments/messages", Who::Anyone, Some(message), 409),
        operation("GET", "/api/admin/payments", Who::Admin, None, 200),
        operation("POST", "/api/admin/payments/{id}/refund", Who::Admin, None, 404),
        operation("GET", "/api/admin/items/{id}/live", Who::Admin, None, 200),
        operation("POST", "/api/lab/runs", Who::Admin, Some(json!({ "strategies": [] })), 422),
        operation("GET", "/api/lab/runs", Who::Admin, None, 200),
        operation("GET", "/api/lab/runs/{id}", Who::Admin, None, 404),
        operation("DELETE", "/api/lab/runs/{id}", Who::Admin, None, 404),
        operation("GET", "/api/lab/runs/{id}/events", Who::Admin, None, 404),
        operation("GET", "/api/session", Who::Buyer, None, 200),
        operation("GET", "/api/session/methods", Who::Anyone, None, 200),
        // There is no identity provider here.
        operation("GET", "/api/session/provider", Who::Anyone, None, 409),
        operation("GET", "/api/session/callback", Who::Anyone, None, 303),
        operation("GET", "/healthz", Who::Anyone, None, 200),
        operation("GET", "/readyz", Who::Anyone, None, 200),
        operation("GET", "/api/admin/health", Who::Admin, None, 200),
        operation("GET", "/metrics", Who::Anyone, None, 200),
        operation("DELETE", "/api/admin/users/{id}", Who::Admin, None, 204),
        // A minted token has no account. The last operation ends the caller's sessions.
        operation("PUT", "/api/session/password", Who::Buyer, Some(passwords), 404),
        operation("DELETE", "/api/users/me", Who::Buyer, Some(json!({ "password": "x" })), 404),
        operation("DELETE", "/api/sessions", Who::Buyer, None, 204),
    ]
}

/// The item and the order that fill the parameters of the paths.
pub(super) struct Testbed {
    pub(super) instance: Instance,
    item: i64,
    order: String,
}

impl Testbed {
    /// A shop, and an order of buyer 1.
    pub(super) async fn open() -> (Shop, Self) {
        let (shop, instance, item) =
            Shop::selling(json!({ "per_buyer_limit": 100, "stock": 100 })).await;
        let order = order_id(&instance.buyer(1).buy("default", item).await);
        (shop, Self { instance, item, order })
    }

    pub(super) async fn request(&self, operation: &Operation, client: &Client) -> RequestBuilder {
        let id = if operation.path.starts_with("/api/orders") {
            self.order.clone()
        } else if operation.path.starts_with("/api/admin/users") {
            // Nobody whose token is used here.
            "99".to_owned()
        } else {
            self.item.to_string()
        };
        let path = operation.path.replace("{strategy}", "default");
        let path = path.replace("{item_id}", &self.item.to_string());
        let request = client.request(operation.method.clone(), &path.replace("{id}", &id));
        match &operation.body {
            Some(body) => request.json(body),
            None => request,
        }
    }

    async fn ask(&self, operation: &Operation, client: &Client) -> Answer {
        let response = self.request(operation, client).await.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let kind =
            headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        // A stream has no end: its head is all that is of interest here.
        let stream = kind.starts_with("text/event-stream");
        let text =
            if stream { String::new() } else { response.text().await.expect("a whole body") };
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status, headers, text, json }
    }
}

#[tokio::test]
async fn each_operation_is_for_those_it_is_for() {
    let (shop, testbed) = Testbed::open().await;
    let instance = &testbed.instance;
    let program = shop.make_program(instance, "other").await;
    for operation in operations() {
        let what = format!("{} {}", operation.method, operation.path);
        let before = Ledger::of(&shop).await;
        let stranger = testbed.ask(&operation, &instance.stranger()).await;
        if operation.who == Who::Anyone {
            assert_eq!(stranger.status, operation.status, "{what}: {}", stranger.text);
            continue;
        }
        assert_problem(&stranger, (401, "unauthenticated"), &what);
        let forged = instance.stranger().with_token("sk1.forged.token.x");
        assert_problem(&testbed.ask(&operation, &forged).await, (401, "invalid_token"), &what);
        assert_eq!(Ledger::of(&shop).await, before, "{what}: a stranger changed something");
        let buyer = testbed.ask(&operation, &instance.buyer(2)).await;
        if operation.who != Who::Buyer {
            assert_eq!(Ledger::of(&shop).await, before, "{what}: another buyer changed something");
        }
        let admin = instance.stranger().with_token(&instance.token(3, Role::Admin));
        let by_admin = testbed.ask(&operation, &admin).await;
        match operation.who {
            Who::Anyone => {}
            Who::Buyer => {
                assert_eq!(buyer.status, operation.status, "{what}: {}", buyer.text);
                // An operator does not delete the own account.
                let is_deletion = operation.path == "/api/users/me";
                let of_admin = if is_deletion { 409 } else { operation.status };
                assert_eq!(by_admin.status, of_admin, "{what}: {}", by_admin.text);
            }
            Who::Owner => {
                assert_problem(&buyer, (404, "order_not_found"), &what);
                assert_problem(&by_admin, (404, "order_not_found"), &what);
                let owner = testbed.ask(&operation, &instance.buyer(1)).await;
                assert_eq!(owner.status, operation.status, "{what}: {}", owner.text);
            }
            Who::Shop => {
                assert_problem(&buyer, (403, "forbidden"), &what);
                assert_problem(&by_admin, (403, "forbidden"), &what);
                let by_shop = testbed.ask(&operation, &program).await;
                assert_eq!(by_shop.status, operation.status, "{what}: {}", by_shop.text);
            }
            Who::Admin => {
                assert_problem(&buyer, (403, "forbidden"), &what);
                let of_guest = testbed.request(&operation, &program).await;
                let of_guest = Client::send(of_guest.header("buyer-reference", "anna")).await;
                assert_problem(&of_guest, (403, "forbidden"), &what);
                assert_eq!(by_admin.status, operation.status, "{what}: {}", by_admin.text);
            }
        }
    }
    let off = instance.stranger().post("/api/payments/messages", &json!({ "type": "x" })).await;
    assert_problem(&off, (409, "payments_off"), "a message to the demo");
    assert_clean(instance, testbed.item).await;
}

/// What the document says of an operation.
pub(super) fn documented(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let each = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().expect("operations").iter();
        methods.map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation))
    });
    each.collect()
}

#[test]
fn the_document_names_the_operations_of_this_list_and_who_may_and_what_is_answered() {
    assert_same_operations(&document());
    assert_says_who_may(&document());
}

/// The document as the program makes it.
pub(super) fn document() -> Value {
    serde_json::to_value(seckill::http::openapi()).expect("JSON")
}

fn assert_same_operations(document: &Value) {
    let mut written: Vec<_> =
        documented(document).into_iter().map(|(method, path, _)| (method, path)).collect();
    let mut listed: Vec<_> = operations()
        .into_iter()
        .map(|known| (known.method.to_string(), known.path.to_owned()))
        .collect();
    written.sort();
    listed.sort();
    assert_eq!(written, listed);
}

fn assert_says_who_may(document: &Value) {
    let problem = &document["components"]["schemas"]["ProblemBody"];
    for field in ["type", "title", "status", "detail", "code", "outcome", "retryable", "request_id"]
    {
        assert!(problem["properties"][field].is_object(), "{field} is missing in {problem}");
    }
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    let known = operations();
    // The TypeScript client finds its types by the ids of the operations.
    let mut ids = BTreeSet::new();
    for (method, path, operation) in documented(document) {
        let what = format!("{method} {path}");
        let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{what} has no id"));
        assert!(ids.insert(id), "{what}: {id} comes twice");
        let known = known
            .iter()
            .find(|known| known.path == path && known.method.as_str() == method)
            .unwrap_or_else(|| panic!("{what} is not in this list"));
        let secured = operation["security"].as_array().is_some_and(|needs| !needs.is_empty());
        assert_eq!(secured, known.who != Who::Anyone, "{what}: security");
        assert!(operation["summary"].is_string(), "{what} has no summary");
        let responses = operation["responses"].as_object().expect("responses");
        let status = known.status.to_string();
        let class = format!("{}XX", &status[..1]);
        let has_status = responses.contains_key(&status) || responses.contains_key(&class);
        assert!(has_status, "{what}: no {status}");
        let succeeds = responses.keys().any(|status| status.starts_with(['2', '3']));
        assert!(succeeds, "{what}: no success");
        let refuses = known.who != Who::Anyone || path.contains('{') || known.body.is_some();
        assert!(!refuses || responses.contains_key("4XX"), "{what}: no refusal");
        for (status, response) in responses {
            if status.ends_with("XX") {
                let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/ProblemBody", "{what}: {status}");
            }
        }
        let has_body = known.body.is_some() || known.method == Method::POST;
        assert_eq!(operation["requestBody"].is_object(), has_body, "{what}: body");
    }
    assert!(ids.contains("get_items_id"), "{ids:?}");
}

/// A document with an operation, a right, an answer or a body too many or too few is refused.
#[test]
fn a_document_that_says_something_else_is_found() {
    const BUY: &str = "/paths/~1api~1seckill~1{strategy}~1{item_id}/post";
    let refuses = |judge: fn(&Value), change: &dyn Fn(&mut Value)| {
        let mut planted = document();
        change(&mut planted);
        assert_ne!(planted, document(), "nothing is planted");
        std::panic::catch_unwind(|| judge(&planted)).is_err()
    };
    let without = |at: &str, field: &str| {
        let (at, field) = (at.to_owned(), field.to_owned());
        move |document: &mut Value| {
            let of = document.pointer_mut(&at).and_then(Value::as_object_mut);
            of.unwrap_or_else(|| panic!("{at}")).remove(&field);
        }
    };
    assert!(refuses(assert_same_operations, &without(BUY.trim_end_matches("/post"), "post")));
    let one_more = |document: &mut Value| document["paths"]["/api/nothing"]["get"] = Value::Null;
    assert!(refuses(assert_same_operations, &one_more));
    assert!(refuses(assert_says_who_may, &one_more));
    for (at, field) in [
        (BUY, "security"),
        (BUY, "summary"),
        (BUY, "operationId"),
        (BUY, "requestBody"),
        (&*format!("{BUY}/responses"), "201"),
        (&*format!("{BUY}/responses"), "4XX"),
        ("/components/schemas/ProblemBody/properties", "outcome"),
    ] {
        assert!(refuses(assert_says_who_may, &without(at, field)), "{at} {field}");
    }
}
