//! Products.

use serde_json::json;

use crate::rows::account::actions::{self, Actor};
use crate::rows::item::products;
use crate::work::Ledger;
use shop_domain::product::NewProduct;
use shop_domain::{LedgerError, Product};

/// Creates a product for an operator.
///
/// # Errors
/// When it was not created, or may have been.
pub async fn create_product(
    ledger: &Ledger,
    new: &NewProduct,
    actor: &Actor,
) -> Result<Product, LedgerError> {
    let created = ledger.create(|transaction| {
        Box::pin(async move {
            let product = products::insert(transaction, new, actor.now).await?;
            let detail = json!({ "id": product.id.get(), "name": product.name });
            actions::record(transaction, actor, "product_created", None, &detail).await?;
            Ok(product)
        })
    });
    created.await
}
