//! A cluster as one of its nodes sees it: the answers to `CLUSTER NODES` and `CLUSTER SLOTS`.
//!
//! Only the first has the epochs. Only the second has the *preferred endpoint* of each node, as its
//! setting `cluster-preferred-endpoint-type` says: an address, a host name, or none.

use std::collections::HashMap;

use redis::Value;

use crate::slot::SLOTS;

/// What one node knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) primaries: Vec<Primary>,
    /// Those that follow a primary, each as `host:port`.
    pub(crate) replicas: Vec<String>,
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

impl View {
    /// Reads the answers of a node at `own_host`, which stands for a host that the node does not
    /// know or does not tell. `by_name` prefers host names to all others: certificates have names.
    pub(crate) fn read(
        text: &str,
        preferred: &PreferredHosts,
        own_host: &str,
        by_name: bool,
    ) -> Self {
        let mut view = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(id), Some(address), Some(flags), Some(_)) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                continue;
            };
            let has = |flag| flags.split(',').any(|word| word == flag);
            if has("noaddr") || has("handshake") {
                continue;
            }
            let Some((address, name, port)) = endpoint(address) else { continue };
            let host = match preferred.hosts.get(id) {
                _ if by_name && !name.is_empty() => name,
                Some(Some(host)) => host,
                Some(None) => own_host,
                None if matches!(address, "" | "?") => own_host,
                None => address,
            };
            // Behind two times of pings.
            let epoch = words.nth(2).and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
            let ranges: Vec<_> = words.skip(1).filter_map(range).collect();
            if has("slave") || has("replica") {
                if !has("fail") {
                    view.replicas.push(format!("{host}:{port}"));
                }
            } else if !ranges.is_empty() {
                let id = id.to_owned();
                view.primaries.push(Primary { id, host: host.to_owned(), port, epoch, ranges });
            }
        }
        view
    }
}

/// The preferred endpoints of the nodes that have slots, by the nodes' ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PreferredHosts {
    /// `None` where clients shall use the host by which they know the node that answered.
    hosts: HashMap<String, Option<String>>,
}

impl PreferredHosts {
    /// Reads the answer to `CLUSTER SLOTS`: ranges of first and last slot and their nodes, each with
    /// its preferred endpoint, port and id. What cannot be read is left out: the address counts then.
    pub(crate) fn read(answer: &Value) -> Self {
        let list = |value: &Value| match value {
            Value::Array(values) => values.clone(),
            _ => Vec::new(),
        };
        let text = |value: &Value| match value {
            Value::BulkString(text) => String::from_utf8(text.clone()).ok(),
            Value::SimpleString(text) => Some(text.clone()),
            _ => None,
        };
        let mut hosts = HashMap::new();
        for node in list(answer).iter().flat_map(|range| list(range).into_iter().skip(2)) {
            let [endpoint, _, id, ..] = &*list(&node) else { continue };
            let Some(id) = text(id) else { continue };
            match text(endpoint) {
                // A node whose name is asked for and that has none: its address counts.
                Some(host) if host == "?" => {}
                Some(host) => drop(hosts.insert(id, Some(host).filter(|host| !host.is_empty()))),
                None => drop(hosts.insert(id, None)),
            }
        }
        Self { hosts }
    }
}

/// `address:port@bus-port`, and behind a comma the host's name, if it has one.
fn endpoint(text: &str) -> Option<(&str, &str, u16)> {
    let mut parts = text.split(',');
    let address = parts.next()?;
    let name = parts.next().unwrap_or_default();
    let address = address.split('@').next()?;
    let (host, port) = address.rsplit_once(':')?;
    let name = if name.contains('=') { "" } else { name };
    Some((host, name, port.parse().ok().filter(|port| *port != 0)?))
}

/// `7`, or `0-5460`; a slot on its way stands in brackets, and counts where it still is.
fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first = first.parse().ok()?;
    let last = last.parse().ok()?;
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
        let none = PreferredHosts::default();
        let view = View::read(ANSWER, &none, "own.example", false);
        let [first, second] = &*view.primaries else { panic!("{view:?}") };
        assert_eq!((&*first.host, first.port, first.epoch), ("127.0.0.1", 7001, 3));
        assert_eq!(first.ranges, [(0, 5460), (5462, 5462)]);
        assert_eq!((second.id.as_str(), second.epoch), ("bb", 2));
        assert_eq!(view.replicas, ["own.example:7003"]);
        let by_name = View::read(ANSWER, &none, "own.example", true);
        assert_eq!(by_name.primaries[0].host, "first.example");
    }

    #[test]
    fn the_preferred_endpoint_counts_unless_certificates_need_a_name() {
        let slots = |first: &str| {
            let text = format!(
                "*2\r\n*4\r\n:0\r\n:5460\r\n*3\r\n{first}:7001\r\n$2\r\naa\r\n\
                 *3\r\n$1\r\n?\r\n:7003\r\n$2\r\ncc\r\n\
                 *3\r\n:5461\r\n:16383\r\n*3\r\n$6\r\n10.0.0\r\n:7002\r\n$2\r\nbb\r\n"
            );
            PreferredHosts::read(&redis::parse_redis_value(text.as_bytes()).expect("an answer"))
        };
        let hosts = |first: &str, by_name| {
            let view = View::read(ANSWER, &slots(first), "own.example", by_name);
            let hosts: Vec<String> = view.primaries.into_iter().map(|node| node.host).collect();
            (hosts.join(" "), view.replicas[0].clone())
        };
        let named = "$6\r\nchosen\r\n";
        assert_eq!(
            hosts(named, false),
            ("chosen 10.0.0".to_owned(), "own.example:7003".to_owned())
        );
        assert_eq!(hosts(named, true).0, "first.example 10.0.0");
        // `unknown-endpoint`: as the node that answered.
        for none in ["$-1\r\n", "$0\r\n\r\n"] {
            assert_eq!(hosts(none, false).0, "own.example 10.0.0", "{none:?}");
        }
    }
}
