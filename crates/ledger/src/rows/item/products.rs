//! Products, of which items are the variants.

use sqlx::mysql::MySqlRow;
use sqlx::{MySqlConnection, MySqlExecutor, Row};
use time::OffsetDateTime;

use mysql_connection::out_of_range;
use mysql_connection::statement::{Binds, Read};
use shop_domain::product::{NewProduct, VariantOption};
use shop_domain::{Product, ProductId, Variant};

/// The most products.
pub const PRODUCTS_MAX: usize = 1_000;

/// Inserts a product, and returns it.
pub async fn insert(
    transaction: &mut MySqlConnection,
    new: &NewProduct,
    now: OffsetDateTime,
) -> sqlx::Result<Product> {
    let id = ProductId::generate();
    sqlx::query(
        "INSERT INTO products (id, name, description, image_url, created_at) VALUES (?, ?, ?, ?, ?)",
    )
    .binds((id.get(), &new.name, &new.description, &new.image_url, now))
    .execute(transaction)
    .await?;
    let NewProduct { name, description, image_url } = new.clone();
    Ok(Product { id, name, description, image_url })
}

/// Lists the products, newest first.
pub async fn list(executor: impl MySqlExecutor<'_>) -> sqlx::Result<Vec<Product>> {
    let statement = format!("SELECT {} FROM products ORDER BY id DESC LIMIT ?", Product::COLUMNS);
    sqlx::query_as(&statement).bind(PRODUCTS_MAX as u64).all(executor).await
}

/// Finds a product.
pub async fn find(
    executor: impl MySqlExecutor<'_>,
    id: ProductId,
) -> sqlx::Result<Option<Product>> {
    let statement = format!("SELECT {} FROM products WHERE id = ?", Product::COLUMNS);
    sqlx::query_as(&statement).bind(id.get()).first(executor).await
}

/// What an item is among the items of its product, if it has one.
pub(super) fn variant(row: &MySqlRow) -> sqlx::Result<Option<Variant>> {
    let id: Option<ProductId> = row.try_get("product_id")?;
    let name: Option<String> = row.try_get("product_name")?;
    let (Some(id), Some(name)) = (id, name) else { return Ok(None) };
    let description: Option<String> = row.try_get("product_description")?;
    let image_url = row.try_get("product_image_url")?;
    let options: Option<String> = row.try_get("options")?;
    let options: Vec<(String, String)> = serde_json::from_str(options.as_deref().unwrap_or("[]"))
        .map_err(|_| out_of_range("options"))?;
    let options = options.into_iter().map(|(name, value)| VariantOption { name, value });
    let product = Product { id, name, description: description.unwrap_or_default(), image_url };
    Ok(Some(Variant { product, options: options.collect() }))
}

/// The options of a variant as they are stored.
pub(super) fn stored(options: &[VariantOption]) -> String {
    let pairs: Vec<_> = options.iter().map(|option| (&option.name, &option.value)).collect();
    serde_json::to_string(&pairs).expect("texts become JSON")
}
