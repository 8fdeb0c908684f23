//! New items by the text of their fields: the ports of the extension `files` to new sales.

use crate::account::Actor;
use async_trait::async_trait;
use extension::ports::{Created, KeyedRequest, NewItems, UnknownName};
use shop_domain::{Currency, NewItem};
use web::body::Integer;
use web::problem::Problem;

use super::problems;
use super::route::admin::{CreateItemBody, new_item};
use super::route::options_of_table;
use crate::catalog::{Catalog, CreateError, check};

/// Reads a new item from the texts of its fields: a [`ReadItem`](extension::ports::ReadItem).
pub fn read_item(
    field: &dyn Fn(&str) -> Option<String>,
    currency: Currency,
) -> Result<NewItem, Problem> {
    let new = new_item(body_of(field)?, currency, None)?;
    check(&new).map_err(Problem::from)?;
    Ok(new)
}

#[async_trait]
impl NewItems for Catalog {
    async fn unknown_names(&self, new: &[NewItem]) -> Result<Vec<UnknownName>, Problem> {
        let unknown = self.unknown_names(new).await?;
        let named = unknown.into_iter().map(|(place, error)| {
            let column = match error {
                CreateError::NoSuchProduct => "product_id",
                _ => "limit_group_id",
            };
            UnknownName { place, column, problem: error.into() }
        });
        Ok(named.collect())
    }

    async fn create_all(
        &self,
        new: &[NewItem],
        actor: &Actor,
        request: Option<KeyedRequest<'_>>,
    ) -> Result<Created, Problem> {
        Ok(self.create_all(new, actor, request).await?)
    }
}

fn body_of(field: &dyn Fn(&str) -> Option<String>) -> Result<CreateItemBody, Problem> {
    let text = |name: &str| field(name).unwrap_or_default();
    let number = |name: &str| Integer::of_text(field(name).unwrap_or_default().trim());
    let waiting_room = match field("waiting_room").as_deref() {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => {
            return Err(problems::INVALID_TYPE.detail("Send waiting_room as true or false."));
        }
    };
    Ok(CreateItemBody {
        name: text("name"),
        description: text("description"),
        image_url: field("image_url"),
        price_cents: number("price_cents"),
        currency: field("currency"),
        stock: number("stock"),
        starts_at: text("starts_at"),
        ends_at: text("ends_at"),
        per_buyer_limit: number("per_buyer_limit"),
        unpaid_max: number("unpaid_max"),
        hold_seconds: number("hold_seconds"),
        strategy: field("strategy"),
        kind: field("kind"),
        arbiter: field("arbiter"),
        waiting_room,
        offer_seconds: number("offer_seconds"),
        extend_seconds: number("extend_seconds"),
        return_seconds: number("return_seconds"),
        limit_group_id: number("limit_group_id"),
        product_id: number("product_id"),
        options: options_of_table(&text("options"))?,
        // A sale that is drawn is created by itself.
        mode: field("mode"),
        draw_closes_at: None,
        draw_party_max: Integer::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::{FaultBody, read_table};

    const HEAD: &str = "name,price_cents,stock,starts_at,ends_at,strategy,waiting_room\n";
    const RIGHT: &str = "Lamp,250,10,2026-11-22T10:00:00Z,2026-11-22T11:00:00Z,mysql-atomic,\n";

    fn faults(table: &str) -> Vec<(u64, String, String)> {
        let faults = read_table(table.as_bytes(), None, Currency::USD, read_item).faults;
        let brief = |it: FaultBody| (it.line, it.column.unwrap_or_default(), it.code);
        faults.into_iter().map(brief).collect()
    }

    fn expect(table: &str, expected: &[(u64, &str, &str)]) {
        let found = faults(table);
        let found: Vec<_> = found.iter().map(|(line, a, b)| (*line, &**a, &**b)).collect();
        assert_eq!(found, expected, "{table}");
    }

    #[test]
    fn a_line_of_names_of_any_length_makes_a_short_answer() {
        let rows = format!("{HEAD}{}", ",-1,x,x,x,x,x\n".repeat(10_000));
        let heads = ["x,".repeat(100_000), ",".repeat(100_000), "x".repeat(100_000)];
        let tables = heads.into_iter().map(|head| (head, 1)).chain([(rows, 1_000)]);
        for (table, expected) in tables {
            let faults = read_table(table.as_bytes(), None, Currency::USD, read_item).faults;
            let bytes = serde_json::to_string(&faults).expect("JSON").len();
            assert!(faults.len() == expected && bytes < expected * 500, "{bytes} bytes");
        }
    }

    #[test]
    fn the_line_of_names_is_checked_first() {
        expect(
            "name,price_cents,colour,name\n",
            &[
                (1, "colour", "invalid_table"),
                (1, "name", "invalid_table"),
                (1, "stock", "invalid_table"),
                (1, "starts_at", "invalid_table"),
                (1, "ends_at", "invalid_table"),
            ],
        );
        expect(HEAD, &[(1, "", "invalid_table")]);
        let variant = RIGHT.replace('\n', ",7,Size=M; Size=L\n");
        let head = HEAD.replace('\n', ",product_id,options\n");
        expect(&format!("{head}{variant}"), &[(2, "options", "invalid_variant")]);
        expect(
            &format!("{head}{}", variant.replace(",7,", ",x,")),
            &[(2, "product_id", "invalid_type")],
        );
        let many = RIGHT.repeat(500 + 1);
        let last = u64::try_from(500).expect("a line") + 2;
        expect(&format!("{HEAD}{many}"), &[(last, "", "invalid_table")]);
    }
}
