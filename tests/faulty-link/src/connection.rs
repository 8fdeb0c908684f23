//! One connection: both directions, until either ends or a fault ends both.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::trap::{Act, Direction, TrapEffect};
use super::{Fault, Orders, Shared, find};
use crate::lock;

/// The largest piece that is read, and so searched for a pattern, at once.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// Why a connection ends.
enum End {
    /// Either end has closed, or the link closes both.
    Closed,
    /// The link resets the client's connection.
    Reset,
    /// The server is cut off; the client hears nothing until a later fault replaces the one of this
    /// number.
    Silent(u64),
    /// The client is cut off; the server gets this piece when a later fault replaces the one of this
    /// number.
    Held(u64, Vec<u8>),
}

/// One connection through the link.
struct Connection<'a> {
    shared: &'a Shared,
    /// The next answer is not for the client; the link has this fault then.
    lost_answer: Mutex<Option<Fault>>,
}

/// Passes both ways until either ends or the link ends both.
pub(crate) async fn join(
    client: TcpStream,
    mut from_server: impl AsyncRead + Unpin,
    mut to_server: impl AsyncWrite + Unpin,
    number: usize,
    shared: &Shared,
) {
    let mut refused = shared.orders.subscribe();
    let mut silenced = shared.orders.subscribe();
    let (mut from_client, mut to_client) = client.into_split();
    let connection = Connection { shared, lost_answer: Mutex::new(None) };
    let end = tokio::select! {
        biased;
        () = refusal(&mut refused) => {
            shared.bite();
            return;
        }
        for_ever = silence(&mut silenced, number) => {
            shared.bite();
            if for_ever {
                std::future::pending::<()>().await;
            }
            let _ = silenced.wait_for(|orders| orders.fault != Fault::Silence).await;
            return;
        }
        end = connection.requests(&mut from_client, &mut to_server) => end,
        end = connection.answers(&mut from_server, &mut to_client) => end,
    };
    match end {
        End::Closed => {}
        End::Reset => {
            let _ = to_client.as_ref().set_zero_linger();
            // Without the farewell that dropping it would send.
            to_client.forget();
        }
        End::Silent(order) => {
            let _ = to_server.shutdown().await;
            shared.catch();
            shared.told_after(order).await;
        }
        End::Held(order, piece) => {
            drop((from_client, to_client));
            shared.catch();
            shared.told_after(order).await;
            if to_server.write_all(&piece).await.is_ok() {
                let _ = from_server.read(&mut [0; 1]).await;
            }
        }
    }
}

async fn refusal(orders: &mut watch::Receiver<Orders>) {
    let _ = orders.wait_for(|orders| orders.fault == Fault::Refuse).await;
}

/// Waits until the connection of this number is silenced; returns whether it is so for ever.
async fn silence(orders: &mut watch::Receiver<Orders>, number: usize) -> bool {
    let silenced = |orders: &Orders| orders.fault == Fault::Silence || number < orders.stranded;
    match orders.wait_for(silenced).await {
        Ok(orders) => number < orders.stranded,
        Err(_) => true,
    }
}

impl Connection<'_> {
    async fn requests(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> End {
        let mut buffer = vec![0; PIECE_BYTES_MAX];
        let mut tail = Vec::new();
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let piece = &mut buffer[..length];
            if let Fault::Delay(by) = self.fault_once_moving().await {
                self.shared.bite();
                tokio::time::sleep(by).await;
            }
            edit(piece, &mut tail, self.shared);
            if let Some(sprung) = self.shared.springs(Direction::Requests, piece) {
                if sprung.act == Act::LoseAnswer {
                    *lock(&self.lost_answer) = Some(sprung.then);
                } else if let Some(end) = self.act(sprung, piece, to).await {
                    return end;
                }
            }
            if to.write_all(piece).await.is_err() {
                break;
            }
        }
        End::Closed
    }

    async fn answers(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> End {
        let mut changes = self.shared.orders.subscribe();
        let mut buffer = vec![0; PIECE_BYTES_MAX];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let piece = &buffer[..length];
            let lost = lock(&self.lost_answer).take();
            if let Some(then) = lost {
                // The server has acted, and nobody will hear of it.
                self.shared.follow(then);
                self.shared.catch();
                return End::Closed;
            }
            if let Fault::Dribble(pause) = self.fault_once_moving().await {
                self.shared.bite();
                for byte in piece {
                    if to.write_all(std::slice::from_ref(byte)).await.is_err() {
                        return End::Closed;
                    }
                    // Once the fault ends, the rest comes at once.
                    let over = |orders: &Orders| !matches!(orders.fault, Fault::Dribble(_));
                    let _ = tokio::time::timeout(pause, changes.wait_for(over)).await;
                }
                continue;
            }
            if let Some(sprung) = self.shared.springs(Direction::Answers, piece)
                && let Some(end) = self.act(sprung, piece, to).await
            {
                return end;
            }
            if to.write_all(piece).await.is_err() {
                break;
            }
        }
        End::Closed
    }

    /// Waits while the link stalls; returns the fault that it has then.
    async fn fault_once_moving(&self) -> Fault {
        let fault = self.shared.orders.borrow().fault;
        if fault != Fault::Stall {
            return fault;
        }
        self.shared.bite();
        let mut orders = self.shared.orders.subscribe();
        let moving = orders.wait_for(|orders| orders.fault != Fault::Stall).await;
        moving.map_or(Fault::Pass, |orders| orders.fault)
    }

    /// Does what a sprung trap says; returns nothing if the piece is to be passed on.
    async fn act(
        &self,
        sprung: TrapEffect,
        piece: &[u8],
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Option<End> {
        self.shared.follow(sprung.then);
        let end = match sprung.act {
            Act::Hold => {
                self.shared.hold(sprung.order).await;
                return None;
            }
            // These two are caught once their one end is gone.
            Act::CutServerInSilence => return Some(End::Silent(sprung.order)),
            Act::CutClientAndHold => return Some(End::Held(sprung.order, piece.to_owned())),
            Act::Cut | Act::LoseAnswer => End::Closed,
            Act::Reset => {
                let _ = to.write_all(&piece[..piece.len() / 2]).await;
                End::Reset
            }
        };
        self.shared.catch();
        Some(end)
    }
}

/// Replaces and counts patterns in a request. `tail` keeps the end of the request before, since a
/// pattern that is counted may come in two pieces.
fn edit(piece: &mut [u8], tail: &mut Vec<u8>, shared: &Shared) {
    let edits = lock(&shared.edits);
    if !edits.replace.is_empty() {
        while let Some(at) = find(piece, &edits.replace) {
            piece[at..at + edits.replace.len()].copy_from_slice(&edits.instead);
        }
    }
    if !edits.count.is_empty() {
        tail.extend_from_slice(piece);
        let found = tail.windows(edits.count.len()).filter(|window| *window == edits.count);
        shared.counted.fetch_add(found.count() as u64, Ordering::SeqCst);
        tail.drain(..tail.len().saturating_sub(edits.count.len() - 1));
    }
}
