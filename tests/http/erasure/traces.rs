//! The list of all that the ledger has of a person, compared with the schema.

use std::collections::BTreeSet;

use seckill::extensions;

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
    assert_eq!(differences(&shop).await, [""; 0], "columns that only the list or the schema has");
    // A new column that may name a person, and one that the list has and no table.
    for planted in [
        "ALTER TABLE items ADD COLUMN buyer_mail VARCHAR(9) NULL",
        "ALTER TABLE locks DROP COLUMN owner",
    ] {
        let before = differences(&shop).await.len();
        sqlx::query(planted).execute(&shop.pool).await.expect("planted");
        assert_eq!(differences(&shop).await.len(), before + 1, "{planted}");
    }
}

/// Columns that are not on the list, and lines of it that name no column.
async fn differences(shop: &Shop) -> Vec<String> {
    let statement = "SELECT CONCAT(table_name, '.', column_name) FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND table_name NOT LIKE '\\_%' AND column_name REGEXP ?";
    let named = sqlx::query_scalar(statement).bind(WORDS);
    let named: BTreeSet<String> = shop.read_all(named).await.into_iter().collect();
    let of_nobody = OF_NOBODY.iter().map(|(table, column)| format!("{table}.{column}"));
    let mut known: BTreeSet<String> = of_nobody.collect();
    known.extend(
        extensions::personal_data().iter().map(|trace| format!("{}.{}", trace.table, trace.column)),
    );
    let all = "SELECT CONCAT(table_name, '.', column_name) FROM information_schema.columns \
         WHERE table_schema = DATABASE()";
    let all: BTreeSet<String> = shop.read_all(sqlx::query_scalar(all)).await.into_iter().collect();
    named.difference(&known).chain(known.difference(&all)).cloned().collect()
}
