//! Products, of which items are the variants, and groups of items that share a limit.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt;

use super::{Catalog, CreateError, StockedItem};
use ledger::Ledger;
use ledger::catalog::{create_group, create_product};
use ledger::gathered::{GatheredReads, Rows};
use ledger::rows::actions::Actor;
use ledger::rows::{items, limit_groups, products};
use shop_domain::product::NewProduct;
use shop_domain::{LedgerError, LimitGroup, Product, ProductId};

/// A product with its variants.
#[derive(Debug)]
pub struct ProductWithItems {
    pub product: Product,
    /// Oldest first.
    pub items: Vec<StockedItem>,
}

/// The reads of products: one at a time, and each for all who wait for its product.
pub(super) type ProductReads = GatheredReads<Arc<ProductWithItems>, ProductId>;

impl Catalog {
    /// Lists the products, newest first.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn products(&self) -> Result<Vec<Product>, LedgerError> {
        self.ledger.read(products::list(&self.ledger.pool)).await
    }

    /// Creates a product for an operator.
    pub async fn create_product(
        &self,
        new: &NewProduct,
        actor: &Actor,
    ) -> Result<Product, CreateError> {
        if self.products().await?.len() >= products::PRODUCTS_MAX {
            return Err(CreateError::TooManyProducts);
        }
        Ok(create_product(&self.ledger, new, actor).await?)
    }

    /// Finds a product.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn product(&self, id: ProductId) -> Result<Option<Product>, LedgerError> {
        self.ledger.read(products::find(&self.ledger.pool, id)).await
    }

    /// Finds a product with its variants, with one read for all who ask at the same time.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn product_with_items(
        &self,
        id: ProductId,
    ) -> Result<Option<Arc<ProductWithItems>>, LedgerError> {
        self.products.read(id).await
    }

    /// Lists the groups, oldest first.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn limit_groups(&self) -> Result<Vec<LimitGroup>, LedgerError> {
        self.ledger.read(limit_groups::list(&self.ledger.pool)).await
    }

    /// Creates a group for an operator.
    pub async fn create_limit_group(
        &self,
        name: &str,
        per_buyer_limit: u32,
        actor: &Actor,
    ) -> Result<LimitGroup, CreateError> {
        if self.limit_groups().await?.len() >= limit_groups::GROUPS_MAX {
            return Err(CreateError::TooManyLimitGroups);
        }
        Ok(create_group(&self.ledger, name, per_buyer_limit, actor).await?)
    }
}

pub(super) fn reads(ledger: Ledger) -> ProductReads {
    GatheredReads::new(move |ids| {
        let ledger = ledger.clone();
        async move { read_products(&ledger, ids).await }.boxed()
    })
}

/// Reads products one after the other: all readers together take one connection.
async fn read_products(
    ledger: &Ledger,
    ids: Vec<ProductId>,
) -> Rows<Arc<ProductWithItems>, ProductId> {
    let mut read = HashMap::new();
    for id in ids {
        if let Some(found) = read_product(ledger, id).await.transpose() {
            read.insert(id, found.map(Arc::new));
        }
    }
    Ok(read)
}

async fn read_product(
    ledger: &Ledger,
    id: ProductId,
) -> Result<Option<ProductWithItems>, LedgerError> {
    let pool = &ledger.pool;
    let read = ledger.read(async {
        let Some(product) = products::find(pool, id).await? else { return Ok(None) };
        let items = items::list_product(pool, id).await?;
        Ok(Some(ProductWithItems { product, items }))
    });
    read.await
}
