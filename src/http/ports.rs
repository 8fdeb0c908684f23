//! What the core is to extensions, where its errors are problems.

use async_trait::async_trait;

use super::outcomes::of_step;
use crate::order::{Orders, PaymentResult, StepError};
use extension::ports::OrdersToPay;
use shop_domain::order::Step;
use shop_domain::payment::ReceivedPayment;
use shop_domain::{LedgerError, Order, OrderId, OrderStatus, UserId};
use web::problem::Problem;

#[async_trait]
impl OrdersToPay for Orders {
    async fn pay(&self, id: OrderId, owner: UserId) -> Result<Order, Problem> {
        Ok(self.step(id, owner, Step::Pay).await?.order)
    }

    async fn payable(&self, id: OrderId, owner: UserId) -> Result<Order, Problem> {
        let found = self.find(id, owner).await?;
        let order = found.ok_or(StepError::NotFound).map_err(of_step)?;
        match order.status {
            OrderStatus::Paid | OrderStatus::Pending | OrderStatus::Expired => Ok(order),
            _ => Err(of_step(StepError::Conflict(Box::new(order)))),
        }
    }

    async fn confirm(&self, received: &ReceivedPayment) -> Result<PaymentResult, LedgerError> {
        Self::confirm(self, received).await
    }
}
