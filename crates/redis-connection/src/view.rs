//! A cluster as one of its nodes sees it: the answer to `CLUSTER NODES`.

use crate::slot::SLOTS;

/// What one node knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) primaries: Vec<Primary>,
    pub(crate) replicas: Vec<Replica>,
}

/// A node that has slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Primary {
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Of two nodes that claim a slot, the one with the higher epoch has it.
    pub(crate) epoch: u64,
    /// First and last slot of each range.
    pub(crate) ranges: Vec<(u16, u16)>,
}

/// A node that follows a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) of: String,
}

impl View {
    /// Reads the answer of a node at `own_host`, which stands for a host that the node does not
    /// know. `by_name` prefers host names to addresses: certificates have names.
    pub(crate) fn read(text: &str, own_host: &str, by_name: bool) -> Self {
        let mut view = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(id), Some(address), Some(flags), Some(of)) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                continue;
            };
            let has = |flag| flags.split(',').any(|word| word == flag);
            if has("noaddr") || has("handshake") {
                continue;
            }
            let Some((host, port)) = endpoint(address, own_host, by_name) else { continue };
            // Behind two times of pings.
            let epoch = words.nth(2).and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
            let ranges: Vec<_> = words.skip(1).filter_map(range).collect();
            if has("slave") || has("replica") {
                if !has("fail") {
                    view.replicas.push(Replica { host, port, of: of.to_owned() });
                }
            } else if !ranges.is_empty() {
                view.primaries.push(Primary { id: id.to_owned(), host, port, epoch, ranges });
            }
        }
        view
    }
}

/// `host:port@bus-port`, and behind a comma the host's name, if it has one.
fn endpoint(text: &str, own_host: &str, by_name: bool) -> Option<(String, u16)> {
    let mut parts = text.split(',');
    let (address, name) = (parts.next()?, parts.next().unwrap_or_default());
    let address = address.split('@').next()?;
    let (host, port) = address.rsplit_once(':')?;
    let host = match (by_name && !name.is_empty() && !name.contains('='), host) {
        (true, _) => name,
        (false, "" | "?") => own_host,
        (false, host) => host,
    };
    Some((host.to_owned(), port.parse().ok().filter(|port| *port != 0)?))
}

/// `7`, or `0-5460`; a slot on its way stands in brackets, and counts where it still is.
fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < SLOTS).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "\
aa 127.0.0.1:7001@17001,first.example,shard-id=x myself,master - 0 0 3 connected 0-5460 5462 [93-<-bb]
bb 127.0.0.1:7002@17002 master - 0 1 2 connected 5461 5463-16383
cc :7003@17003 slave aa 0 1 3 connected
dd 127.0.0.1:7004@17004 slave,fail bb 0 1 2 disconnected
ee 127.0.0.1:7005@17005 master - 0 1 0 connected
ff :0@0 master,noaddr - 0 1 0 disconnected
";

    #[test]
    fn owners_and_replicas_are_read() {
        let view = View::read(ANSWER, "own.example", false);
        let [first, second] = &*view.primaries else { panic!("{view:?}") };
        assert_eq!((&*first.host, first.port, first.epoch), ("127.0.0.1", 7001, 3));
        assert_eq!(first.ranges, [(0, 5460), (5462, 5462)]);
        assert_eq!((second.id.as_str(), second.epoch), ("bb", 2));
        let [replica] = &*view.replicas else { panic!("{view:?}") };
        assert_eq!((&*replica.host, replica.port, &*replica.of), ("own.example", 7003, "aa"));
        let by_name = View::read(ANSWER, "own.example", true);
        assert_eq!(by_name.primaries[0].host, "first.example");
    }
}
