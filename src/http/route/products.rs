//! `/api/products`: products, which the shop shows with all their variants on one page.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::items::ItemBody;
use super::texts;
use crate::catalog::Catalog;
use crate::http::problems;
use extension::actor_of;
use shop_domain::product::{NewProduct, NewVariant, VariantOption};
use shop_domain::{Clock, Product, ProductId, Variant};
use web::body::JsonBody;
use web::document::TryAgain;
use web::extract::{Operator, ProductPath};
use web::problem::Problem;

/// A product.
#[derive(Serialize, ToSchema)]
pub struct ProductBody {
    id: i64,
    name: String,
    description: String,
    image_url: Option<String>,
}

impl From<&Product> for ProductBody {
    fn from(product: &Product) -> Self {
        Self {
            id: product.id.get(),
            name: product.name.clone(),
            description: product.description.clone(),
            image_url: product.image_url.clone(),
        }
    }
}

/// The products.
#[derive(Serialize, ToSchema)]
pub struct ProductsBody {
    /// Newest first.
    products: Vec<ProductBody>,
}

/// A new product. It cannot be changed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateProductBody {
    name: String,
    #[serde(default)]
    description: String,
    /// A path of this site or an https address.
    #[serde(default)]
    image_url: Option<String>,
}

/// A product with its variants.
#[derive(Serialize, ToSchema)]
pub struct ProductWithItemsBody {
    product: ProductBody,
    /// Its variants, oldest first; what is sold is one of these.
    items: Vec<ItemBody>,
    /// Whether items are older copies or missing, because a ledger does not answer.
    stale: bool,
    /// The time of the server, to correct the clock of the client.
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
}

/// What an item is among the items of its product.
#[derive(Serialize, ToSchema)]
pub struct VariantBody {
    /// The id of the product.
    id: i64,
    /// The name of the product.
    name: String,
    description: String,
    image_url: Option<String>,
    /// By what it differs from the other items of the product.
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
    let names: std::collections::HashSet<&str> = names.collect();
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

/// Find a product with its variants.
#[utoipa::path(get, path = "/api/products/{id}", tag = "everyone", params(ProductPath), responses(
    (status = 200, description = "The product", body = ProductWithItemsBody),
    (status = "4XX", description = "No such product"), TryAgain,
))]
pub async fn find(
    State(catalog): State<Catalog>,
    State(clock): State<Clock>,
    ProductPath(id): ProductPath,
) -> Result<Json<ProductWithItemsBody>, Problem> {
    let product = catalog.product(id).await?.ok_or(&problems::PRODUCT_NOT_FOUND)?;
    let read = catalog.variants(id).await?;
    let now = clock.now();
    let stale = read.age.is_some();
    let items = read.value.iter().map(|stocked| ItemBody::new(stocked, now)).collect();
    let product = ProductBody::from(&product);
    Ok(Json(ProductWithItemsBody { product, items, stale, server_time: now }))
}

/// List the products.
#[utoipa::path(get, path = "/api/admin/products", tag = "operator", responses(
    (status = 200, description = "The products, newest first", body = ProductsBody),
    (status = "4XX", description = "Not an operator"), TryAgain,
))]
pub async fn list(
    State(catalog): State<Catalog>,
    _: Operator,
) -> Result<Json<ProductsBody>, Problem> {
    let products = catalog.products().await?;
    Ok(Json(ProductsBody { products: products.iter().map(ProductBody::from).collect() }))
}

/// Create a product. `product_id` of an item makes the item one of its variants.
#[utoipa::path(post, path = "/api/admin/products", tag = "operator",
    request_body = CreateProductBody, responses(
    (status = 201, description = "The product", body = ProductBody),
    (status = "4XX", description = "Not an operator, or an invalid field"),
    (status = "5XX", description = "Read the list before you try again"),
))]
pub async fn create(
    State(catalog): State<Catalog>,
    operator: Operator,
    JsonBody(body): JsonBody<CreateProductBody>,
) -> Result<(StatusCode, Json<ProductBody>), Problem> {
    let new = NewProduct {
        name: texts::name(&body.name)?,
        description: texts::description(&body.description)?,
        image_url: body.image_url.map(texts::image_url).transpose()?,
    };
    let created = catalog.create_product(&new, &actor_of(&operator)).await?;
    Ok((StatusCode::CREATED, Json((&created).into())))
}
