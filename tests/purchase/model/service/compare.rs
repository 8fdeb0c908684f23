//! The comparison of the service with the books of the model.

use super::*;

impl Service {
    /// Stock and orders are what the books say; at once, but for holds that have to be swept.
    pub(super) fn compare(&self, run: &Run) -> Tried {
        self.wait_for("the ledger to be as the books are", &async |service: &Self| {
            let process = &service.instances[0];
            let item = process.client.get(&format!("/api/items/{}", run.item)).await.json;
            let (total, available) = (&item["total"], &item["available"]);
            if (total, available) != (&json!(run.books.total), &json!(run.books.available)) {
                return Err(format!("total {total}, available {available}"));
            }
            for buyer in 1..=BUYERS {
                let place = format!("/api/items/{}/waiting", run.item);
                let place = process.buyer(run.buyers + buyer).get(&place).await.json;
                if place["status"] != run.books.place(buyer) {
                    return Err(format!("the place of {buyer}: {place}"));
                }
                let listed = process.buyer(run.buyers + buyer).get("/api/orders").await.json;
                let mut found: Vec<_> = listed["orders"].as_array().into_iter().flatten().collect();
                found.retain(|order| order["item_id"] == run.item);
                found.sort_by_key(|order| order["id"].to_string());
                let found: Vec<_> = found
                    .iter()
                    .map(|order| json!([order["id"], order["quantity"], order["status"]]))
                    .collect();
                let own = run.books.orders.iter().filter(|entry| entry.buyer == buyer);
                let mut expected: Vec<_> =
                    own.map(|entry| json!([entry.id, entry.quantity, entry.status])).collect();
                expected.sort_by_key(|order| order[0].to_string());
                if found != expected {
                    return Err(format!("orders of {buyer}: {found:?}"));
                }
            }
            Ok(())
        })
    }

    pub(super) fn wait_for(
        &self,
        what: &str,
        look: &impl AsyncFn(&Self) -> Result<(), String>,
    ) -> Tried {
        self.runtime.block_on(async {
            let since = Instant::now();
            loop {
                match look(self).await {
                    Ok(()) => return Ok(()),
                    Err(seen) if since.elapsed() > PATIENCE => {
                        return Err(fail(format!("waited in vain for {what}: {seen}")));
                    }
                    Err(_) => sleep(PAUSE).await,
                }
            }
        })
    }
}
