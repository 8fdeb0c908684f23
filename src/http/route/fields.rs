//! Parses the fields of a sale that operators send.

use std::ops::RangeInclusive;

use crate::http::problems;
use shop_domain::{Currency, Item, LimitGroupId, ProductId};
use web::body::Integer;
use web::problem::{Problem, ProblemType};

/// Parses a limit per buyer.
///
/// # Errors
/// 422 for a limit out of range, or for none without a default.
pub(super) fn limit(sent: Integer, default: Option<u32>) -> Result<u32, Problem> {
    sent.or(default, in_range(1, Item::PER_BUYER_LIMIT_MAX), || {
        let detail = format!("Send a limit of 1 to {} units.", Item::PER_BUYER_LIMIT_MAX);
        problems::LIMIT_OUT_OF_RANGE.detail(detail)
    })
}

pub(super) fn currency(code: &str) -> Result<Currency, Problem> {
    Currency::parse(code).ok_or_else(|| problems::INVALID_CURRENCY.problem())
}

/// Parses for how long an offer holds a unit; `None` if it is left out.
pub(super) fn offer_seconds(sent: Integer) -> Result<Option<u32>, Problem> {
    let parse = |number: i128| in_range(0, Item::OFFER_SECONDS_MAX)(number).map(Some);
    sent.or(Some(None), parse, || {
        let detail = format!("Send an offer time of 0 to {} seconds.", Item::OFFER_SECONDS_MAX);
        problems::OFFER_OUT_OF_RANGE.detail(detail)
    })
}

pub(super) fn extend_seconds(sent: Integer) -> Result<Option<u32>, Problem> {
    within(sent, "extend_seconds", 0..=Item::HOLD_SECONDS_MAX)
}

pub(super) fn return_seconds(sent: Integer) -> Result<Option<u32>, Problem> {
    within(sent, "return_seconds", 0..=Item::RETURN_SECONDS_MAX)
}

/// Parses how long a buyer wants an unpaid order to keep its units; `None` if it is left out.
pub(super) fn wanted_hold(sent: Integer, field: &str) -> Result<Option<u32>, Problem> {
    within(sent, field, 1..=Item::HOLD_SECONDS_MAX)
}

pub(super) fn unpaid_max(sent: Integer) -> Result<Option<u32>, Problem> {
    within(sent, "unpaid_max", 0..=Item::UNPAID_MAX_MAX)
}

/// Parses a number within `range`; `None` if it is left out.
fn within(sent: Integer, field: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, Problem> {
    let (least, most) = range.into_inner();
    sent.or(
        Some(None),
        |number| in_range(least, most)(number).map(Some),
        || problems::OUT_OF_RANGE.detail(format!("Send {field} from {least} to {most}.")),
    )
}

pub(super) fn limit_group(sent: Integer) -> Result<Option<Option<LimitGroupId>>, Problem> {
    id_or_none(sent, LimitGroupId::new, &problems::LIMIT_GROUP_NOT_FOUND)
}

pub(super) fn product(sent: Integer) -> Result<Option<Option<ProductId>>, Problem> {
    id_or_none(sent, ProductId::new, &problems::PRODUCT_NOT_FOUND)
}

/// Parses an id, or none for 0; `None` if it is left out.
fn id_or_none<T>(
    sent: Integer,
    id: fn(i64) -> Option<T>,
    unknown: &'static ProblemType,
) -> Result<Option<Option<T>>, Problem> {
    let parse = |number: i128| {
        let number = i64::try_from(number).ok().filter(|number| *number >= 0)?;
        Some(Some(id(number)))
    };
    sent.or(Some(None), parse, || unknown.problem())
}

/// Accepts a number from `least` to `most`.
pub(super) fn in_range<T: TryFrom<i128> + Into<i128> + Copy>(
    least: T,
    most: T,
) -> impl FnOnce(i128) -> Option<T> {
    move |number| {
        (least.into()..=most.into()).contains(&number).then(|| T::try_from(number).ok())?
    }
}

pub(super) fn stock_out_of_range() -> Problem {
    problems::STOCK_OUT_OF_RANGE.detail(format!("Send a stock of 0 to {} units.", Item::STOCK_MAX))
}

/// Parses one of two names; `default` if the field is left out.
pub(super) fn choice<T>(
    text: Option<&str>,
    default: T,
    parse: fn(&str) -> Option<T>,
) -> Result<T, Problem> {
    let Some(text) = text else { return Ok(default) };
    let detail = "Send kind as shop or lab, and arbiter as on or off.";
    parse(text).ok_or_else(|| problems::INVALID_TYPE.detail(detail))
}
