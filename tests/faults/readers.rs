//! Readers beside the buyers: they look at orders and lists on all instances, pay some orders and
//! cancel some, so that the audit can judge what was answered in the order of time.

use hyper::header::HeaderValue;

use ledger_audit::History;
use loadtest::drive::Instance;
use loadtest::drive::observer::Observer;

use crate::prelude::*;

/// A reader waits at most this time for an answer: longer than the service's deadline.
const ANSWER_MAX: Duration = Duration::from_secs(6);
/// The pause between two orders, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 10..40;
/// A reader pays one of six orders, and cancels one of twelve.
const PAID_ONE_IN: u32 = 6;
const CANCELLED_ONE_IN: u32 = 12;

/// The readers of a workload, one for each item that is sold safely.
pub struct Readers {
    stopped: Arc<AtomicBool>,
    tasks: JoinSet<(usize, History)>,
}

impl Readers {
    /// Starts them; their clock starts at `base`.
    pub fn start(items: &[Arc<SaleItem>], addrs: &[SocketAddr], base: Instant, seed: u64) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let instances: Vec<Instance> = addrs.iter().copied().map(Instance::at).collect();
        let mut tasks = JoinSet::new();
        for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.control) {
            let (item, stopped) = (Arc::clone(item), Arc::clone(&stopped));
            let observer = Observer::new(instances.clone(), base, ANSWER_MAX);
            let random = StdRng::seed_from_u64(seed ^ (index as u64 + 1) << 32);
            tasks.spawn(async move { (index, read(&item, observer, random, &stopped).await) });
        }
        Self { stopped, tasks }
    }

    /// Ends them, and answers what they saw of each item.
    pub async fn stop(mut self, items: usize) -> Run<Vec<History>> {
        self.stopped.store(true, Ordering::SeqCst);
        let mut histories: Vec<History> = (0..items).map(|_| History::default()).collect();
        while let Some(ended) = self.tasks.join_next().await {
            let (index, history) = ended.map_err(|error| format!("a reader broke: {error}"))?;
            histories[index].extend(history);
        }
        Ok(histories)
    }
}

async fn read(
    item: &SaleItem,
    mut observer: Observer,
    mut random: StdRng,
    stopped: &AtomicBool,
) -> History {
    while !stopped.load(Ordering::SeqCst) {
        if let Some((purchase, order)) = item.accepted.any(|all| random.random_range(all)) {
            let (buyer, token) = &item.tokens[purchase as usize];
            let token = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token");
            observer.order(&token, &order).await;
            if random.random_ratio(1, PAID_ONE_IN) {
                observer.pay(&token, &order).await;
            } else if random.random_ratio(1, CANCELLED_ONE_IN) {
                observer.cancel(&token, &order).await;
            }
            observer.list(*buyer, &token).await;
        }
        sleep(Duration::from_millis(random.random_range(PAUSE_MS))).await;
    }
    observer.history
}
