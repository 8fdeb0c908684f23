//! What systemd is told (`Type=notify`): that the service can sell, that it stops, and, for its watchdog, that it
//! answers. Each message to the watchdog follows an answer of every runtime; a timer alone would prove nothing.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;
use web::prober::Prober;

/// How long the first answer may take; then it is asked for again.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(5);
/// The part of the watchdog's period for one question, and for the pause after it: two questions have to fail before
/// the watchdog is not told in time.
const TURNS: u32 = 4;

/// Tells systemd until the service stops, and then that it does. It never ends.
pub async fn tell(prober: Prober, can_sell: CancellationToken, stopping: CancellationToken) {
    let running = async {
        can_sell.cancelled().await;
        tell_while_it_runs(&prober).await;
    };
    stopping.run_until_cancelled(running).await;
    say(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    std::future::pending::<()>().await;
}

/// Says in `systemctl status` what is waited for.
pub fn tell_obstacle(sentence: &str) {
    // A line break would end the message.
    say(&[NotifyState::Status(&format!("waiting: {}", sentence.replace('\n', " ")))]);
}

async fn tell_while_it_runs(prober: &Prober) {
    while let Err(sentence) = prober.ask(FIRST_ANSWER_MAX).await {
        tracing::warn!("systemd is not told yet that the service is ready: {sentence}");
        tokio::time::sleep(FIRST_ANSWER_MAX / TURNS).await;
    }
    say(&[NotifyState::Ready, NotifyState::Status("selling")]);
    let Some(period) = sd_notify::watchdog_enabled() else { return };
    loop {
        tokio::time::sleep(period / TURNS).await;
        match prober.ask(period / TURNS).await {
            Ok(()) => say(&[NotifyState::Watchdog]),
            Err(sentence) => tracing::error!("systemd's watchdog is not told: {sentence}"),
        }
    }
}

/// Does nothing when nobody listens, as outside of systemd.
fn say(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd cannot be told {state:?}");
    }
}
