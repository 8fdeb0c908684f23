//! The service that is compared: two instances on the run's servers, each in a runtime of its own, so
//! that one can be ended with everything that it is in the middle of.

mod compare;
mod run;

use std::sync::atomic::AtomicI64;

use proptest::test_runner::TestCaseError;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use super::books::{Answer as Expected, Books, ExpectedPurchase, HOLD_MINUTES, OFFER_MINUTES};
use super::plan::{Buy, Plan, Sale, Step};
use crate::support::prelude::*;
use run::{Run, accepted, expect, fail};

/// How long the service may take to get where the model is already.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);
const BUYERS: i64 = 3;
/// Items that are sold in batches beside the plan's own one.
const NEIGHBOURS: usize = 4;
/// The first buyer of a neighbour.
const NEIGHBOURS_BUYERS: i64 = 1_000_000;

type Tried<T = ()> = Result<T, TestCaseError>;

pub struct Service {
    /// That of the clients.
    runtime: Runtime,
    shop: Shop,
    /// Two, but while one is being replaced.
    instances: Vec<Process>,
    /// How far the clocks are ahead.
    ahead: time::Duration,
    neighbours: Vec<i64>,
    /// Orders of each neighbour so far.
    neighbours_sold: i64,
}

struct Process {
    runtime: Runtime,
    instance: Instance,
    client: Client,
}

impl Process {
    fn start(shop: &Shop, ahead: time::Duration) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime for an instance");
        let instance = runtime.block_on(shop.start());
        instance.clock.shift(ahead);
        let client = instance.stranger();
        Self { runtime, instance, client }
    }

    fn buyer(&self, id: i64) -> Client {
        self.client.with_token(&self.instance.token(id, Role::Buyer))
    }

    fn admin(&self) -> Client {
        self.client.with_token(&self.instance.token(1, Role::Admin))
    }

    /// Ends it without a word to anybody.
    fn crash(self) {
        self.runtime.shutdown_background();
    }
}

impl Service {
    pub fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime for the clients");
        let shop = runtime.block_on(Shop::with_lock_servers(|config| {
            // What another instance changed is seen at once.
            (config.purchase.item_age_ms_max, config.purchase.sold_out_ms) = (0, 0);
            (config.job.expire_period_ms, config.job.reconcile_period_ms) = (20, 50);
            config.waiting_list.sweep_ms = 20;
            (config.queue.poll_ms, config.queue.claim_idle_ms) = (20, 200);
            // What a crash leaves locked is free soon.
            (config.redis.command_timeout_ms, config.lock.lease_ms) = (400, 1_200);
            config.mysql.pool_max = 8;
        }));
        let start = || Process::start(&shop, time::Duration::ZERO);
        let instances = vec![start(), start()];
        let neighbours = (0..NEIGHBOURS).map(|_| {
            let body = json!({ "stock": 1_000_000, "strategy": "mysql-batch" });
            runtime.block_on(instances[0].instance.make_item(body))
        });
        let neighbours = neighbours.collect();
        let ahead = time::Duration::ZERO;
        Self { runtime, shop, instances, ahead, neighbours, neighbours_sold: 0 }
    }

    pub fn carry_out(&mut self, plan: &Plan) -> Tried {
        static BUYERS_SO_FAR: AtomicI64 = AtomicI64::new(0);
        let group = plan.sale.group_limit.map(|limit| self.make_group(limit));
        let item = self.make_item(&plan.sale, group);
        let twin = self.make_twin(group);
        let buyers = BUYERS_SO_FAR.fetch_add(BUYERS, Ordering::Relaxed);
        let mut run = Run { books: Books::new(plan.sale.clone()), item, twin, buyers };
        for (number, step) in plan.steps.iter().enumerate() {
            let done = self.take(&mut run, number, step).and_then(|()| self.compare(&run));
            done.map_err(|why| fail(format!("step {number}, {step:?}: {why}\n{:#?}", run.books)))?;
        }
        self.wait_for("a clean audit", &async |service: &Self| {
            for item in [item, twin] {
                let audit = service.instances[0].admin();
                let audit = audit.get(&format!("/api/admin/items/{item}/audit")).await.json;
                if audit["clean"] != true {
                    return Err(audit.to_string());
                }
            }
            Ok(())
        })?;
        self.wait_for("the neighbours' orders to be in the ledger", &async |service: &Self| {
            let admin = service.instances[0].admin();
            for item in &service.neighbours {
                let audit = admin.get(&format!("/api/admin/items/{item}/audit")).await.json;
                if audit["clean"] != true || audit["orders"] != service.neighbours_sold {
                    return Err(format!("{audit}, {} were sold", service.neighbours_sold));
                }
            }
            Ok(())
        })
    }

    /// One purchase of each neighbour in the same batches: whatever becomes of the plan's own, they
    /// are sold.
    async fn neighbours_buy(&self, at: usize, buyer: i64) -> Tried {
        let buyer = self.instances[at].buyer(NEIGHBOURS_BUYERS + buyer);
        let bought = self.neighbours.iter().map(|item| buyer.buy("mysql-batch", *item));
        for answer in join_all(bought).await {
            if !accepted(&answer) {
                return Err(fail(format!("a neighbour's order: {}", answer.text)));
            }
        }
        Ok(())
    }

    fn make_group(&self, limit: i64) -> i64 {
        let limit = u32::try_from(limit).expect("small");
        self.runtime.block_on(self.instances[0].instance.make_group(limit))
    }

    fn make_twin(&self, group: Option<i64>) -> i64 {
        let body = json!({
            "stock": 1_000_000, "per_buyer_limit": 1_000_000, "strategy": "mysql-batch",
            "hold_seconds": 86_400, "limit_group_id": group.unwrap_or(0),
        });
        self.runtime.block_on(self.instances[0].instance.make_item(body))
    }

    fn make_item(&self, sale: &Sale, group: Option<i64>) -> i64 {
        let instance = &self.instances[0].instance;
        let now = instance.clock.now();
        let at = |minutes: i64| (now + time::Duration::minutes(minutes)).format(&Rfc3339);
        let body = json!({
            "kind": "shop", "stock": sale.stock, "per_buyer_limit": sale.limit, "unpaid_max": 0,
            "hold_seconds": HOLD_MINUTES * 60, "offer_seconds": OFFER_MINUTES * 60,
            "strategy": "lock-redis", "limit_group_id": group.unwrap_or(0),
            "starts_at": at(sale.starts_at).expect("a time"), "ends_at": at(sale.ends_at).expect("a time"),
        });
        self.runtime.block_on(instance.make_item(body))
    }

    fn take(&mut self, run: &mut Run, number: usize, step: &Step) -> Tried {
        let at = number % self.instances.len();
        match step {
            Step::Buy(buy) => {
                let answer = self.runtime.block_on(self.buy(run, at, buy))?;
                run.bought(buy, &answer)
            }
            Step::Parallel(buys) => self.in_parallel(run, buys),
            Step::Pay(order) => self.order_step(run, at, *order, "payment", Books::pay),
            Step::Cancel(order) => self.order_step(run, at, *order, "cancellation", Books::cancel),
            Step::Meddle(order) => {
                let Some(order) = run.pick(*order) else { return Ok(()) };
                let entry = &run.books.orders[order];
                let other = self.instances[at].buyer(run.buyers + entry.buyer % BUYERS + 1);
                for step in ["payment", "cancellation"] {
                    let answer = self.runtime.block_on(other.step(&entry.id, step));
                    expect(&answer, &Expected::Refused(vec!["order_not_found"]))?;
                }
                Ok(())
            }
            Step::Pass(minutes) => {
                let by = time::Duration::minutes(*minutes);
                self.ahead += by;
                self.instances.iter().for_each(|process| process.instance.clock.shift(by));
                self.runtime.block_on(self.shop.let_holds_pass(by.whole_seconds()));
                run.books.pass(*minutes);
                Ok(())
            }
            Step::Restock(delta) => {
                let expected = run.books.restock(*delta);
                self.edit(run, at, &json!({ "stock_delta": delta }), &expected)
            }
            Step::Switch(strategy) => {
                self.edit(run, at, &json!({ "strategy": strategy }), &Expected::Order(""))
            }
            Step::Pause(paused) => {
                run.books.pause(*paused);
                self.edit(run, at, &json!({ "paused": paused }), &Expected::Order(""))
            }
            Step::Join(buyer) => {
                let expected = run.books.join(*buyer);
                let client = self.instances[at].buyer(run.buyers + buyer);
                let path = format!("/api/items/{}/waiting", run.item);
                expect(&self.runtime.block_on(client.post(&path, &json!({}))), &expected)
            }
            Step::Leave(buyer) => {
                run.books.leave(*buyer);
                let client = self.instances[at].buyer(run.buyers + buyer);
                let path = format!("/api/items/{}/waiting", run.item);
                let left = Client::send(client.request(Method::DELETE, &path));
                let left = self.runtime.block_on(left);
                if left.status == 204 { Ok(()) } else { Err(fail(left.text)) }
            }
            Step::Accept(buyer, key) => self.accept(run, at, *buyer, *key),
            Step::BuyTwin(buyer, units) => {
                let codes = run.books.refusals_of_twin(*buyer, *units);
                let client = self.instances[at].buyer(run.buyers + buyer);
                let path = purchase_path("mysql-batch", run.twin);
                let body = json!({ "quantity": units });
                let answer = self.runtime.block_on(client.post(&path, &body));
                match answer.json["id"].as_str() {
                    Some(id) if codes.is_empty() => {
                        run.books.twin.push((*buyer, *units, id.to_owned()));
                        Ok(())
                    }
                    _ => expect(&answer, &Expected::Refused(codes)),
                }
            }
            Step::CancelTwin(buyer) => {
                let last = run.books.twin.iter().rposition(|order| order.0 == *buyer);
                let Some(last) = last else { return Ok(()) };
                let (_, _, id) = run.books.twin.remove(last);
                let client = self.instances[at].buyer(run.buyers + buyer);
                let answer = self.runtime.block_on(client.step(&id, "cancellation"));
                expect(&answer, &Expected::Order("cancelled"))
            }
            Step::CrashDuring(buy, after_us) => {
                let request = self.purchase(run, at, buy).0;
                let sent = self.runtime.spawn(request.send());
                self.runtime.block_on(async { sleep(Duration::from_micros(*after_us)).await });
                self.instances.remove(at).crash();
                self.instances.insert(at, Process::start(&self.shop, self.ahead));
                let _ = self.runtime.block_on(sent);
                // Whatever became of it, the same key tells.
                let answer = self.runtime.block_on(self.buy(run, at, buy))?;
                run.bought(buy, &answer)
            }
        }
    }

    /// Buys the offered unit.
    fn accept(&self, run: &mut Run, at: usize, buyer: i64, key: Option<u8>) -> Tried {
        let client = self.instances[at].buyer(run.buyers + buyer);
        let path = format!("/api/items/{}/waiting/purchase", run.item);
        let request = client.request(Method::POST, &path);
        let request = match key {
            Some(key) => request.header("idempotency-key", format!("key-{key}")),
            None => request,
        };
        let answer = self.runtime.block_on(Client::send(request));
        let id = answer.json["id"].as_str().unwrap_or_default().to_owned();
        match run.books.expected_acceptance(buyer, key) {
            ExpectedPurchase::Sells if accepted(&answer) => {
                run.books.accept(buyer, key, id);
                Ok(())
            }
            // What was queued and then rejected is answered as it was.
            ExpectedPurchase::Replays(order) if [201, 202].contains(&answer.status) => {
                if run.books.orders[order].id == id { Ok(()) } else { Err(fail("another order")) }
            }
            ExpectedPurchase::Refuses(codes) => expect(&answer, &Expected::Refused(codes)),
            expected => Err(fail(format!("{expected:?}, not {}", answer.text))),
        }
    }

    /// A purchase until it is decided: what is unavailable changed nothing and is asked again.
    async fn buy(&self, run: &Run, at: usize, buy: &Buy) -> Tried<Answer> {
        let since = Instant::now();
        loop {
            let (request, buyer) = self.purchase(run, at, buy);
            let answer = buyer.outcome(Client::send(request).await).await;
            let undecided = answer.status == 503 || answer.code() == "request_in_progress";
            if !undecided {
                return Ok(answer);
            }
            if since.elapsed() > PATIENCE {
                return Err(fail(format!("it stays undecided: {}", answer.text)));
            }
            sleep(PAUSE).await;
        }
    }

    fn purchase(&self, run: &Run, at: usize, buy: &Buy) -> (RequestBuilder, Client) {
        let buyer = self.instances[at].buyer(run.buyers + buy.buyer);
        let request = buyer.request(Method::POST, &purchase_path(buy.strategy, run.item));
        let request = request.json(&json!({ "quantity": buy.quantity }));
        let request = match buy.key {
            Some(key) => request.header("idempotency-key", format!("key-{key}")),
            None => request,
        };
        (request, buyer)
    }

    /// Purchases at once, over both instances. Whatever their order: no unit twice, nobody over the
    /// limit, and no refusal that is wrong when all is done, since nothing came back meanwhile, except
    /// units of orders that were queued and then rejected.
    fn in_parallel(&mut self, run: &mut Run, buys: &[Buy]) -> Tried {
        let mut buys = buys.to_vec();
        for at in 0..buys.len() {
            // Which of two with one key comes first is not for the model to say.
            let (before, rest) = buys.split_at_mut(at);
            if before.iter().any(|buy| buy.buyer == rest[0].buyer && buy.key == rest[0].key) {
                rest[0].key = None;
            }
        }
        let fresh =
            |buy: &&Buy| !matches!(run.books.expected_purchase(buy), ExpectedPurchase::Replays(_));
        let buys: Vec<Buy> = buys.iter().filter(fresh).cloned().collect();
        let asked = buys.iter().enumerate().map(|(at, buy)| self.buy(run, at % 2, buy));
        let neighbours = (0..2).map(|at| {
            let buyer = self.neighbours_sold + i64::try_from(at).expect("small");
            self.neighbours_buy(at, buyer)
        });
        let (neighbours, answers) =
            self.runtime.block_on(async { tokio::join!(join_all(neighbours), join_all(asked)) });
        neighbours.into_iter().collect::<Tried<()>>()?;
        self.neighbours_sold += 2;
        let (mut refused, mut rejected) = (Vec::new(), Vec::new());
        for (buy, answer) in buys.iter().zip(answers) {
            let answer = answer?;
            if answer.code() == "rejected" {
                rejected.push(buy.buyer);
            }
            if accepted(&answer) {
                run.bought(buy, &answer)?;
            } else {
                refused.push((buy, answer));
            }
        }
        for (buy, answer) in refused {
            // What is queued counts until the ledger has refused it.
            let was_right = match answer.code() {
                "limit_reached" | "group_limit_reached" => rejected.contains(&buy.buyer),
                "sold_out" => !rejected.is_empty(),
                _ => false,
            };
            if !(was_right && run.books.expected_purchase(buy) == ExpectedPurchase::Sells) {
                run.bought(buy, &answer)?;
            }
        }
        Ok(())
    }

    fn order_step(
        &self,
        run: &mut Run,
        at: usize,
        order: usize,
        step: &str,
        in_books: impl FnOnce(&mut Books, usize) -> Expected,
    ) -> Tried {
        let Some(order) = run.pick(order) else { return Ok(()) };
        let entry = run.books.orders[order].clone();
        let buyer = self.instances[at].buyer(run.buyers + entry.buyer);
        let answer = self.runtime.block_on(buyer.step(&entry.id, step));
        expect(&answer, &in_books(&mut run.books, order))
    }

    fn edit(&self, run: &Run, at: usize, body: &Value, expected: &Expected) -> Tried {
        let admin = self.instances[at].admin();
        let path = format!("/api/admin/items/{}", run.item);
        expect(&self.runtime.block_on(admin.patch(&path, body)), expected)
    }
}
