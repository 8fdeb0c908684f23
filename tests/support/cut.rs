//! A TCP link that can be cut, stalled and mended, to take a server away from one instance alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

#[derive(Clone, Copy, PartialEq)]
enum Link {
    Works,
    /// Takes everything and answers nothing.
    Stalls,
    Refuses,
}

/// Listens on a loopback port and passes on to a server. Ends when dropped.
pub struct Cut {
    url: String,
    link: watch::Sender<Link>,
    /// Connections that were made before the last one of these swallow everything for ever.
    stranded: watch::Sender<usize>,
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
        let (link, _) = watch::channel(Link::Works);
        let (stranded, _) = watch::channel(0);
        let attempts = Arc::new(AtomicUsize::new(0));
        let end = CancellationToken::new();
        let ended = end.clone();
        let serve = serve(listener, server, link.clone(), stranded.clone(), Arc::clone(&attempts));
        tokio::spawn(async move { ended.run_until_cancelled(serve).await });
        Self { url, link, stranded, attempts, _end: end.drop_guard() }
    }

    /// The server's URL by way of the link.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Breaks every connection, and those to come.
    pub fn cut(&self) {
        self.link.send_replace(Link::Refuses);
    }

    /// Swallows what is sent, over old connections and new ones; mending breaks these.
    pub fn stall(&self) {
        self.link.send_replace(Link::Stalls);
    }

    /// Swallows from now on what is sent over the connections of this moment, both ways and without
    /// a word to either end; new ones get through.
    pub fn strand(&self) {
        self.stranded.send_replace(self.attempts());
    }

    /// Whom it answers for, as `host:port`.
    pub fn host(&self) -> &str {
        let (_, rest) = self.url.split_once("://").expect("a URL");
        rest.split('/').next().expect("an authority")
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.link.send_replace(Link::Works);
    }

    /// How often somebody has connected so far.
    pub fn attempts(&self) -> usize {
        self.attempts.load(Ordering::SeqCst)
    }
}

async fn serve(
    listener: TcpListener,
    server: String,
    link: watch::Sender<Link>,
    stranded: watch::Sender<usize>,
    attempts: Arc<AtomicUsize>,
) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (mut client, _) = listener.accept().await.expect("accept");
        let number = attempts.fetch_add(1, Ordering::SeqCst);
        let mut stranded = stranded.subscribe();
        let mut link = link.subscribe();
        let now = *link.borrow_and_update();
        match now {
            Link::Refuses => continue,
            Link::Stalls => {
                connections.spawn(async move {
                    let _ = link.wait_for(|link| *link != Link::Stalls).await;
                    drop(client);
                });
                continue;
            }
            Link::Works => {}
        }
        let Ok(mut upstream) = TcpStream::connect(&server).await else { continue };
        let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
        connections.spawn(async move {
            let is_stranded = stranded.wait_for(|before| number < *before).map(drop);
            let is_told = tokio::select! {
                _ = link.wait_for(|link| *link != Link::Works) => true,
                () = is_stranded => false,
                _ = copy_bidirectional(&mut client, &mut upstream) => return,
            };
            if !is_told {
                std::future::pending::<()>().await;
            }
            let _ = link.wait_for(|link| *link != Link::Stalls).await;
        });
    }
}
