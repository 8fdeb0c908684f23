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
use shop_domain::product::NewProduct;
use shop_domain::{Clock, Product};
use web::body::JsonBody;
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
    image_url: Option<String>,
}

/// A product with its variants.
#[derive(Serialize, ToSchema)]
pub struct ProductWithItemsBody {
    product: ProductBody,
    /// Its variants, oldest first; what is sold is one of these.
    items: Vec<ItemBody>,
    /// `false`: the items are as the ledger has them.
    stale: bool,
    /// The time of the server, to correct the clock of the client.
    #[serde(with = "time::serde::rfc3339")]
    server_time: OffsetDateTime,
}

/// Find a product with its variants.
#[utoipa::path(get, path = "/api/products/{id}", tag = "everyone", params(ProductPath),
    responses((status = 200, description = "The product", body = ProductWithItemsBody)))]
pub async fn find(
    State(catalog): State<Catalog>,
    State(clock): State<Clock>,
    ProductPath(id): ProductPath,
) -> Result<Json<ProductWithItemsBody>, Problem> {
    let found = catalog.product_with_items(id).await?.ok_or(&problems::PRODUCT_NOT_FOUND)?;
    let now = clock.now();
    let items = found.items.iter().map(|stocked| ItemBody::new(stocked, now)).collect();
    let product = ProductBody::from(&found.product);
    Ok(Json(ProductWithItemsBody { product, items, stale: false, server_time: now }))
}

/// List the products.
#[utoipa::path(get, path = "/api/admin/products", tag = "operator",
    responses((status = 200, description = "The products, newest first", body = ProductsBody)))]
pub async fn list(
    State(catalog): State<Catalog>,
    _: Operator,
) -> Result<Json<ProductsBody>, Problem> {
    let products = catalog.products().await?;
    Ok(Json(ProductsBody { products: products.iter().map(ProductBody::from).collect() }))
}

/// Create a product. `product_id` of an item makes the item one of its variants.
#[utoipa::path(post, path = "/api/admin/products", tag = "operator",
    request_body = CreateProductBody,
    responses((status = 201, description = "The product", body = ProductBody)))]
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
