//! What an item is among the items of its product: its options, as bodies and tables have them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::texts;
use crate::http::problems;
use shop_domain::product::{NewVariant, VariantOption};
use shop_domain::{ProductId, Variant};
use web::problem::Problem;

/// What an item is among the items of its product.
#[derive(Serialize, ToSchema)]
pub struct VariantBody {
    /// The id of the product.
    id: i64,
    /// The name of the product.
    name: String,
    description: String,
    image_url: Option<String>,
    /// The options by which it differs from the other items of the product.
    options: Vec<VariantOptionBody>,
}

/// An option of a variant.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VariantOptionBody {
    /// Such as `Size`.
    pub(super) name: String,
    /// Such as `M`.
    pub(super) value: String,
}

impl From<&Variant> for VariantBody {
    fn from(variant: &Variant) -> Self {
        let option = |VariantOption { name, value }: &VariantOption| VariantOptionBody {
            name: name.clone(),
            value: value.clone(),
        };
        Self {
            id: variant.product.id.get(),
            name: variant.product.name.clone(),
            description: variant.product.description.clone(),
            image_url: variant.product.image_url.clone(),
            options: variant.options.iter().map(option).collect(),
        }
    }
}

/// Checks the variant that a request wants an item to be; `None`: an item of no product.
///
/// # Errors
/// 422 `invalid_variant`.
pub(super) fn new_variant(
    product: Option<ProductId>,
    options: &[VariantOptionBody],
) -> Result<Option<NewVariant>, Problem> {
    let wrong = || problems::INVALID_VARIANT.problem();
    let Some(product) = product else {
        return if options.is_empty() { Ok(None) } else { Err(wrong()) };
    };
    let names = options.iter().map(|option| option.name.trim());
    let names: HashSet<&str> = names.collect();
    if options.len() > Variant::OPTIONS_MAX || names.len() < options.len() {
        return Err(wrong());
    }
    let text = |text: &str| {
        let text = texts::name(text).map_err(|_| wrong())?;
        let fits = text.chars().count() <= Variant::OPTION_LENGTH_MAX;
        fits.then_some(text).ok_or_else(wrong)
    };
    let option = |option: &VariantOptionBody| -> Result<VariantOption, Problem> {
        Ok(VariantOption { name: text(&option.name)?, value: text(&option.value)? })
    };
    let options = options.iter().map(option).collect::<Result<_, _>>()?;
    Ok(Some(NewVariant { product, options }))
}

/// Reads options as a table has them: `Size=M; Colour=red`, or as JSON: `[["Size","M"],["Colour","red"]]`.
///
/// # Errors
/// 422 `invalid_variant`.
pub(in crate::http) fn options_of_table(text: &str) -> Result<Vec<VariantOptionBody>, Problem> {
    if text.starts_with('[') {
        let pairs: Vec<(String, String)> =
            serde_json::from_str(text).map_err(|_| problems::INVALID_VARIANT.problem())?;
        let options = pairs.into_iter().map(|(name, value)| VariantOptionBody { name, value });
        return Ok(options.collect());
    }
    let option = |part: &str| match part.split_once('=') {
        Some((name, value)) => {
            Ok(VariantOptionBody { name: name.to_owned(), value: value.to_owned() })
        }
        None => Err(problems::INVALID_VARIANT.detail("Send options as Size=M; Colour=red.")),
    };
    text.split(';').filter(|part| !part.trim().is_empty()).map(option).collect()
}
