//! What an endpoint gets: the part of the log that its filter names.

use std::collections::VecDeque;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::sql::event_log::LoggedEvent;
use ledger::rows::outbox::EVENT_TYPES;
use shop_domain::{Currency, ItemId};

/// The most items and the most currencies that a filter names.
const NAMED_MAX: usize = 100;

/// Which events an endpoint gets. A list that is left out lets everything through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Types of events: `orders.changed`, `offers.changed`.
    #[serde(default, deserialize_with = "named", skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Orders with a line of one of these items, and offers of them.
    #[serde(default, deserialize_with = "named", skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<i64>,
    /// Orders in one of these currencies (ISO 4217). Offers have none, so they are left out.
    #[serde(default, deserialize_with = "named", skip_serializing_if = "Vec::is_empty")]
    pub currencies: Vec<String>,
}

/// Reads a list that is not empty: an empty one would let nothing through.
fn named<'de, T: Deserialize<'de>, D: Deserializer<'de>>(reader: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(reader)?;
    let none =
        || D::Error::custom("an empty list lets nothing through; leave it out for everything");
    if list.is_empty() { Err(none()) } else { Ok(list) }
}

/// A position of the log, with the part of its event that matches, if some does.
pub(super) struct FilteredEvent {
    pub position: i64,
    pub event: Option<LoggedEvent>,
}

impl Filter {
    /// Checks what a filter names.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        if !self.types.iter().all(|kind| EVENT_TYPES.contains(&kind.as_str())) {
            return Err("Send types that the log has: orders.changed, offers.changed.");
        }
        if !self.currencies.iter().all(|code| Currency::parse(code).is_some()) {
            return Err("Send currencies of ISO 4217 by their three capital letters, such as EUR.");
        }
        if !self.items.iter().all(|id| ItemId::new(*id).is_some()) {
            return Err("Send items by their ids, from 1.");
        }
        let longest = self.items.len().max(self.currencies.len()).max(self.types.len());
        if longest > NAMED_MAX { Err("Send at most 100 names of each kind.") } else { Ok(()) }
    }

    /// The text that is stored; `None` for the filter that lets everything through.
    pub fn stored(&self) -> Option<String> {
        let text = || serde_json::to_string(self).expect("lists of texts and numbers become JSON");
        (*self != Self::default()).then(text)
    }

    /// Reads what was stored; `None` for a text of another build, whose meaning is not known here.
    pub fn read(stored: Option<&str>) -> Option<Self> {
        stored.map_or_else(|| Some(Self::default()), |text| serde_json::from_str(text).ok())
    }

    /// Filters events of the log.
    pub(super) fn apply(&self, events: Vec<LoggedEvent>) -> VecDeque<FilteredEvent> {
        let filtered = events
            .into_iter()
            .map(|event| FilteredEvent { position: event.position, event: self.part_of(event) });
        filtered.collect()
    }

    /// The part of an event that matches; `None` when nothing of it does.
    fn part_of(&self, mut event: LoggedEvent) -> Option<LoggedEvent> {
        if !self.types.is_empty() && !self.types.contains(&event.kind) {
            return None;
        }
        if self.items.is_empty() && self.currencies.is_empty() {
            return Some(event);
        }
        // A damaged event becomes a dead letter when it is sent.
        let Ok(mut data) = serde_json::from_str::<Map<String, Value>>(&event.payload) else {
            return Some(event);
        };
        let mut matches = false;
        for changes in data.values_mut().filter_map(Value::as_array_mut) {
            changes.retain(|change| self.has_item(change) && self.has_currency(change));
            matches |= !changes.is_empty();
        }
        event.payload = Value::Object(data).to_string();
        matches.then_some(event)
    }

    fn has_item(&self, change: &Value) -> bool {
        let named = |of: &Value| of["item_id"].as_i64().is_some_and(|id| self.items.contains(&id));
        let lines = change["lines"].as_array();
        self.items.is_empty() || named(change) || lines.is_some_and(|lines| lines.iter().any(named))
    }

    fn has_currency(&self, change: &Value) -> bool {
        let named = |code: &str| self.currencies.iter().any(|one| one == code);
        self.currencies.is_empty() || change["currency"].as_str().is_some_and(named)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::OffsetDateTime;

    use super::*;

    fn part(filter: &Value, kind: &str, data: &Value) -> Option<Value> {
        let filter: Filter = serde_json::from_value(filter.clone()).expect("a filter");
        let event = LoggedEvent {
            position: 1,
            id: "an id".to_owned(),
            kind: kind.to_owned(),
            payload: data.to_string(),
            created_at: OffsetDateTime::UNIX_EPOCH,
        };
        let part = filter.part_of(event)?;
        Some(serde_json::from_str(&part.payload).expect("JSON"))
    }

    #[test]
    fn an_endpoint_gets_the_part_of_an_event_that_its_filter_names() {
        let order = |id: i64, item: i64, currency: &str| json!({ "id": id, "item_id": item, "currency": currency });
        let (yen, dollars) = (order(1, 7, "JPY"), order(2, 8, "USD"));
        let mut cart = order(3, 9, "JPY");
        cart["lines"] = json!([{ "item_id": 9 }, { "item_id": 10 }]);
        let data = json!({ "orders": [yen, dollars, cart] });
        let got = |filter: Value| {
            let part = part(&filter, "orders.changed", &data)?;
            let ids = part["orders"].as_array().expect("orders").iter();
            Some(ids.map(|order| order["id"].as_i64().expect("an id")).collect::<Vec<_>>())
        };
        for (filter, expected) in [
            (json!({}), Some(vec![1, 2, 3])),
            (json!({ "types": ["orders.changed"] }), Some(vec![1, 2, 3])),
            (json!({ "types": ["offers.changed"] }), None),
            (json!({ "items": [7] }), Some(vec![1])),
            (json!({ "items": [10, 8] }), Some(vec![2, 3])),
            (json!({ "items": [77] }), None),
            (json!({ "currencies": ["JPY"] }), Some(vec![1, 3])),
            (json!({ "currencies": ["USD"] }), Some(vec![2])),
            (json!({ "currencies": ["EUR"] }), None),
            (json!({ "currencies": ["JPY"], "items": [9] }), Some(vec![3])),
        ] {
            assert_eq!(got(filter.clone()), expected, "{filter}");
        }
        let offers = json!({ "offers": [{ "item_id": 7 }, { "item_id": 8 }] });
        let of_items = part(&json!({ "items": [8] }), "offers.changed", &offers);
        assert_eq!(of_items, Some(json!({ "offers": [{ "item_id": 8 }] })));
        assert_eq!(part(&json!({ "currencies": ["USD"] }), "offers.changed", &offers), None);
    }
}
