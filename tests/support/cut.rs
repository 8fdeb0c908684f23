//! A TCP link that can be cut and mended, to take a server away from one instance alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Listens on a loopback port and passes on to a server. Ends when dropped.
pub struct Cut {
    url: String,
    works: watch::Sender<bool>,
    attempts: Arc<AtomicUsize>,
    _end: DropGuard,
}

impl Cut {
    /// A whole link to the server of a URL with host and port.
    pub async fn to(server_url: &str) -> Self {
        let (_, rest) = server_url.split_once("://").expect("a URL");
        let authority = rest.split('/').next().expect("an authority");
        let server = authority.rsplit('@').next().expect("host and port").to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let here = listener.local_addr().expect("an address").to_string();
        let url = server_url.replacen(&server, &here, 1);
        let (works, _) = watch::channel(true);
        let attempts = Arc::new(AtomicUsize::new(0));
        let end = CancellationToken::new();
        let ended = end.clone();
        let serve = serve(listener, server, works.clone(), Arc::clone(&attempts));
        tokio::spawn(async move { ended.run_until_cancelled(serve).await });
        Self { url, works, attempts, _end: end.drop_guard() }
    }

    /// The server's URL by way of the link.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Breaks every connection, and those to come.
    pub fn cut(&self) {
        self.works.send_replace(false);
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.works.send_replace(true);
    }

    /// How often somebody has connected so far.
    pub fn attempts(&self) -> usize {
        self.attempts.load(Ordering::SeqCst)
    }
}

async fn serve(
    listener: TcpListener,
    server: String,
    works: watch::Sender<bool>,
    attempts: Arc<AtomicUsize>,
) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (mut client, _) = listener.accept().await.expect("accept");
        attempts.fetch_add(1, Ordering::SeqCst);
        if !*works.borrow() {
            continue;
        }
        let Ok(mut upstream) = TcpStream::connect(&server).await else { continue };
        let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
        let mut works = works.subscribe();
        connections.spawn(async move {
            tokio::select! {
                _ = works.wait_for(|works| !works) => {}
                _ = copy_bidirectional(&mut client, &mut upstream) => {}
            }
        });
    }
}
