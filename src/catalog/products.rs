//! Products, of which items are the variants, and groups of items that share a limit.

use super::{Catalog, StockedItem};
use ledger::catalog::{create_group, create_product};
use ledger::rows::actions::Actor;
use ledger::rows::{items, limit_groups, products};
use shop_domain::product::NewProduct;
use shop_domain::{LedgerError, LimitGroup, Product, ProductId};

/// The reason why a product was not created; nothing changed unless the ledger did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProductError {
    /// There are as many products as there may be.
    #[error("too many products")]
    TooMany,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The reason why a group was not created; nothing changed unless the ledger did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// There are as many groups as there may be.
    #[error("too many groups")]
    TooMany,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

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
    ) -> Result<Product, ProductError> {
        if self.products().await?.len() >= products::PRODUCTS_MAX {
            return Err(ProductError::TooMany);
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

    /// Reads the items of a product, oldest first.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn variants(&self, id: ProductId) -> Result<Vec<StockedItem>, LedgerError> {
        self.ledger.read(items::list_product(&self.ledger.pool, id)).await
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
    ) -> Result<LimitGroup, GroupError> {
        if self.limit_groups().await?.len() >= limit_groups::GROUPS_MAX {
            return Err(GroupError::TooMany);
        }
        Ok(create_group(&self.ledger, name, per_buyer_limit, actor).await?)
    }
}
