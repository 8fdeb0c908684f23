//! Values that others make: each column for one is as wide as the other side documents. A longer value is refused by its
//! name before the ledger is asked.

use crate::support::prelude::*;

/// Columns for values that others make, each with its table, its width in characters, and the name of the value in an
/// answer. The comments say what the other side documents.
const FOREIGN: [(&str, usize, &str); 17] = [
    // Stripe: ids have up to 255 characters; a checkout session of Stripe has 66.
    ("payments.id", 255, "payment"),
    // ISO 4217: 3 letters; ISO 24165 and exchanges: up to 11.
    ("payments.currency", 16, "currency"),
    // Standard Webhooks: no limit; Stripe: events have up to 255.
    ("payment_messages.id", 255, "webhook-id"),
    // As payments.id; Adyen 16, PayPal 17, WeChat Pay 32, Alipay 64.
    ("payment_refunds.payment_id", 255, "payment"),
    ("payment_refunds.message_id", 255, "webhook-id"),
    // Another shop's name for a person: OpenID Connect's subject has 255, an e-mail address 254.
    ("guests.reference", 255, "Buyer-Reference"),
    // OpenID Connect Core 2: 255 ASCII characters.
    ("subjects.subject", 255, "sub"),
    // Ours: the description of the API says 64.
    ("orders.request_key", 64, "Idempotency-Key"),
    ("item_creations.request_key", 64, "Idempotency-Key"),
    // Shopify and Magento: titles have up to 255.
    ("items.name", 255, "name"),
    // Ours: the description of the API says 4000.
    ("items.description", 4_000, "description"),
    // Content networks: addresses with signatures have up to 2048.
    ("items.image_url", 2_048, "image_url"),
    ("products.name", 255, "name"),
    ("products.description", 4_000, "description"),
    ("products.image_url", 2_048, "image_url"),
    ("limit_groups.name", 255, "name"),
    // Azure Logic Apps and others: addresses with signatures have up to 2048.
    ("event_endpoints.target", 2_048, "target"),
];

/// Columns whose texts are cut, because they are only shown. The name of a person may be an e-mail address: RFC 5321, 64
/// and 255 characters with a sign between.
const CUT: [(&str, usize); 4] = [
    ("users.username", 320),
    ("payments.last_error", 300),
    ("event_endpoints.last_error", 300),
    ("event_dead_letters.reason", 300),
];

/// Columns for words, hashes, addresses of machines and documents that the service makes itself, or checks as a setting,
/// such as `subjects.issuer`. Only earlier builds use the last seven.
const OURS: &str = "\
    admin_actions.action admin_actions.address admin_actions.detail draws.beacon draws.beacon_signature draws.head \
    draws.rules event_endpoints.filter event_endpoints.secret event_log.payload event_log.type fences.backend \
    item_creations.item_ids items.arbiter items.kind items.options items.strategy locks.name locks.owner \
    orders.fence_backend orders.status orders.strategy outbox.aggregateid outbox.aggregatetype outbox.payload outbox.type \
    payments.reason payments.status running_requests.request_key shops.name sign_in_failures.address \
    stock_movements.reason subjects.issuer users.password_hash users.role users.username_folded \
    users.username_skeleton waiting_list.status \
    archived_movements.reason archived_orders.status archives.file event_endpoints.kind item_moves.state \
    kept_rows.content kept_rows.table_name";

/// A new column for a text needs a line in one of the lists, and has the width that the line says.
#[tokio::test]
async fn each_column_for_a_text_is_on_a_list() {
    let shop = Shop::new().await;
    let statement = "SELECT CONCAT(c.table_name, '.', c.column_name, ' ', c.character_maximum_length) \
         FROM information_schema.columns c JOIN information_schema.tables t \
         ON t.table_schema = c.table_schema AND t.table_name = c.table_name \
         WHERE c.table_schema = DATABASE() AND t.table_type = 'BASE TABLE' \
         AND c.data_type IN ('varchar', 'text', 'mediumtext', 'longtext') \
         AND c.table_name NOT LIKE '\\_%'";
    let found = shop.read_all(sqlx::query_scalar::<_, String>(statement)).await;
    let width = |text: &str| text.parse().unwrap_or(usize::MAX);
    let found = found.iter().filter_map(|line| line.split_once(' '));
    let found: BTreeMap<&str, usize> = found.map(|(column, text)| (column, width(text))).collect();
    let bounded = FOREIGN.map(|(column, most, _)| (column, most)).into_iter().chain(CUT);
    let bounded: BTreeMap<&str, usize> = bounded.collect();
    let known: BTreeSet<&str> = bounded.keys().copied().chain(OURS.split(' ')).collect();
    let missing: Vec<_> = found.keys().filter(|column| !known.contains(*column)).collect();
    assert!(missing.is_empty(), "columns that are on no list: {missing:?}");
    for (column, most) in bounded {
        assert_eq!(found.get(column), Some(&most), "the width of {column}");
    }
}

/// A shop with a payment provider, an identity provider, events and another shop's program.
struct Testbed {
    shop: Shop,
    instance: Instance,
    payments: TestProvider,
    identity: TestIdentityProvider,
    program: Client,
    item: i64,
}

impl Testbed {
    async fn open() -> Self {
        let payments = TestProvider::start().await;
        let identity = TestIdentityProvider::start(vec![TestKey::ed("ed-1")]).await;
        let shop = Shop::with(|config| {
            config.events.enabled = true;
            payments.configure(config, "https://pay.example/{order}");
            config.sections.set("payment", "refund_url", payments.refund_url());
            identity.configure(config);
        });
        let (shop, instance) = shop.await.opened().await;
        let program = shop.make_program(&instance, "other").await;
        let item = instance.make_item(json!({ "per_buyer_limit": 100, "stock": 100 })).await;
        Self { shop, instance, payments, identity, program, item }
    }

    /// Sends a value where it comes from.
    async fn send(&self, column: &str, value: &str) -> Answer {
        let Self { instance, payments, .. } = self;
        let admin = instance.admin();
        let order = shop_domain::OrderId::generate().to_string();
        let key = format!("m{}", value.len());
        let purchase = format!("/api/seckill/mysql-atomic/{}", self.item);
        let keyed = |client: &Client, path: &str| {
            client.request(Method::POST, path).header("idempotency-key", value)
        };
        match column {
            "payments.id" => payments.succeeded(&key, value, &order, 250).send(instance).await,
            "payments.currency" => {
                let body = json!({
                    "type": "payment.succeeded", "payment": key, "order": order,
                    "amount_cents": 250, "currency": value,
                });
                payments.message(&key, &body.to_string()).send(instance).await
            }
            "payment_messages.id" => {
                payments.succeeded(value, &order, &order, 250).send(instance).await
            }
            "payment_refunds.payment_id" => {
                payments.refunded(&format!("r{key}"), value, &order, 250).send(instance).await
            }
            "payment_refunds.message_id" => {
                let id = format!("{}r", &value[1..]);
                payments.refunded(&id, &order, &order, 250).send(instance).await
            }
            "guests.reference" => self.program.as_guest(value, Method::POST, &purchase, None).await,
            "subjects.subject" => self.sign_in(self.identity.claims(value)).await,
            "orders.request_key" => Client::send(keyed(&instance.buyer(1), &purchase)).await,
            "item_creations.request_key" => {
                Client::send(keyed(&admin, "/api/admin/items").json(&item_body(json!({})))).await
            }
            "event_endpoints.target" => {
                admin.post("/api/admin/endpoints", &json!({ "target": value })).await
            }
            "limit_groups.name" => {
                let body = json!({ "name": value, "per_buyer_limit": 1 });
                admin.post("/api/admin/limit-groups", &body).await
            }
            _ => {
                let (table, field) = column.split_once('.').expect("a table and a column");
                let mut body =
                    if table == "items" { item_body(json!({})) } else { json!({ "name": "x" }) };
                body[field] = json!(value);
                admin.post(&format!("/api/admin/{table}"), &body).await
            }
        }
    }

    async fn sign_in(&self, claims: Value) -> Answer {
        let token = self.identity.key(0).token(&claims);
        self.instance.stranger().post("/api/session", &json!({ "token": token })).await
    }

    /// Rows whose value has this length.
    async fn rows(&self, column: &str, length: usize) -> i64 {
        let (table, column) = column.split_once('.').expect("a table and a column");
        let statement =
            format!("SELECT COUNT(*) FROM {table} WHERE CHAR_LENGTH({column}) = {length}");
        self.shop.number(&statement).await
    }
}

/// A value of this length for a column.
fn value(column: &str, length: usize) -> String {
    let beginning = match column {
        "event_endpoints.target" => "https://shop.example/",
        "items.image_url" | "products.image_url" => "/",
        _ => "",
    };
    format!("{beginning}{}", "x".repeat(length - beginning.len()))
}

/// The longest value is kept whole. A longer one is refused: the answer names the field, how long it is and how long it may
/// be, and says that nothing has happened.
#[tokio::test]
async fn the_longest_value_is_kept_and_a_longer_one_is_named() {
    let testbed = Testbed::open().await;
    order_id(&testbed.instance.buyer(2).buy("mysql-atomic", testbed.item).await);
    for (column, most, field) in FOREIGN {
        assert!(testbed.send(column, &value(column, most)).await.status < 300, "{column}");
        assert_eq!(testbed.rows(column, most).await.min(1), 1, "{column} is not kept whole");
        let refused = testbed.send(column, &value(column, most + 1)).await;
        assert!((400..500).contains(&refused.status), "{column}: {}", refused.text);
        assert_eq!(refused.json["outcome"], "none", "{column}: {}", refused.text);
        let said = format!("{field} has {} characters; send at most {most}.", most + 1);
        assert_eq!(refused.json["detail"], said, "{column}: {}", refused.text);
    }
    // The name of a person is only shown: one that is longer than its column is cut, and the person signs in.
    for (subject, length) in [("whole", 320), ("cut", 400)] {
        let mut claims = testbed.identity.claims(subject);
        claims["preferred_username"] = json!(format!("{}@shop.example", "x".repeat(length - 13)));
        testbed.sign_in(claims).await.expect_status(200);
    }
    assert_eq!(testbed.rows("users.username", 320).await, 2);
}

/// A value that no check has found too long is refused by the database: the answer says for certain that nothing changed.
#[tokio::test]
async fn what_the_database_refuses_has_not_happened() {
    let (shop, instance) = Shop::open().await;
    shop.change(sqlx::query("ALTER TABLE products MODIFY COLUMN name VARCHAR(5) NOT NULL")).await;
    let refused = instance.admin().post("/api/admin/products", &json!({ "name": "Shirts" })).await;
    assert_eq!(refused.code(), "internal");
    refused.assert_fields(500, json!({ "outcome": "none", "retryable": false }));
    assert_eq!(shop.number("SELECT COUNT(*) FROM products").await, 0);
}
