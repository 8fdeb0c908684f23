//! The list of all that the ledger has of a person, compared with the schema.

use std::collections::BTreeSet;

use ledger::erasure::traces::ALL;

use crate::support::Shop;

/// Words of columns that may name a person.
const WORDS: &str = "user|buyer|owner|operator|actor|account|subject|issuer|address|guest|payload|detail|mail|phone";
/// Columns with such a word that say nothing of a person. The bucket of an order follows from its item.
const OF_NOBODY: [(&str, &str); 4] = [
    ("items", "per_buyer_limit"),
    ("limit_groups", "per_buyer_limit"),
    ("orders", "buyer_bucket"),
    ("locks", "owner"),
];

#[tokio::test]
async fn each_column_with_a_person_is_on_the_list() {
    let shop = Shop::new().await;
    let statement = "SELECT CONCAT(table_name, '.', column_name) FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND table_name NOT LIKE '\\_%' AND column_name REGEXP ?";
    let named = sqlx::query_scalar(statement).bind(WORDS);
    let named: BTreeSet<String> = shop.read_all(named).await.into_iter().collect();
    let of_nobody = OF_NOBODY.iter().map(|(table, column)| format!("{table}.{column}"));
    let mut known: BTreeSet<String> = of_nobody.collect();
    known.extend(ALL.iter().map(|trace| format!("{}.{}", trace.table, trace.column)));
    let missing: Vec<_> = named.difference(&known).collect();
    assert!(missing.is_empty(), "columns that are not on the list: {missing:?}");
    // No line names a column that is gone.
    let all = "SELECT CONCAT(table_name, '.', column_name) FROM information_schema.columns \
         WHERE table_schema = DATABASE()";
    let all: BTreeSet<String> = shop.read_all(sqlx::query_scalar(all)).await.into_iter().collect();
    let gone: Vec<_> = known.difference(&all).collect();
    assert!(gone.is_empty(), "columns that are not in the schema: {gone:?}");
}
