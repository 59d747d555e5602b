//! The system's table of connections, and who holds each: for the few requests that decide something.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use rustix::process::{geteuid, getpid};

use super::PeerProcess;
use super::caller::find_hidden;
use crate::process::is_of_a_call;

/// The state of a socket that waits for connections, as the table writes it.
const LISTENING: &str = "0A";

/// A socket in the table of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TcpSocket {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) listening: bool,
    pub(super) account: u32,
    /// The number that it has among open files; zero when no process has it any more.
    pub(super) number: u64,
}

impl TcpSocket {
    /// A line of `/proc/net/tcp` or `/proc/net/tcp6`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let field = |at: usize| fields.get(at).copied();
        Some(Self {
            local: address(field(1)?)?,
            remote: address(field(2)?)?,
            listening: field(3)? == LISTENING,
            account: field(7)?.parse().ok()?,
            number: field(9)?.parse().ok()?,
        })
    }
}

/// An address as the table writes it: words of four bytes in the order of this machine, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = host.as_bytes().chunks(8).map(|word| {
        let digits = std::str::from_utf8(word).ok().filter(|digits| digits.len() == 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    });
    let words: Vec<[u8; 4]> = words.collect::<Option<_>>()?;
    let host: IpAddr = match words.as_slice() {
        [word] => Ipv4Addr::from(*word).into(),
        [a, b, c, d] => {
            let bytes: [u8; 16] = [*a, *b, *c, *d].concat().try_into().ok()?;
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(host.to_canonical(), port))
}

/// All that are there.
fn sockets() -> Vec<TcpSocket> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let texts: Vec<String> = tables.iter().filter_map(|table| fs::read_to_string(table).ok()).collect();
    texts.iter().flat_map(|text| text.lines().skip(1)).filter_map(TcpSocket::parse).collect()
}

/// The number among open files of the socket that has these ends, zero if no process has it any more.
pub(super) fn number_of(local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let is_it = |socket: &TcpSocket| !socket.listening && (socket.local, socket.remote) == (local, remote);
    sockets().into_iter().find(is_it).map(|socket| socket.number)
}

pub(super) fn find(peer: Option<SocketAddr>) -> PeerProcess {
    let sockets = sockets();
    let own: HashSet<u64> = numbers(Path::new("/proc/self/fd")).collect();
    let peers = match peer {
        Some(peer) => vec![SocketAddr::new(peer.ip().to_canonical(), peer.port())],
        None => connected(&sockets, &own),
    };
    let ends: Vec<Option<TcpSocket>> = peers.iter().map(|peer| other_end(*peer, &sockets, &own)).collect();
    let holders =
        holders(&ends.iter().flatten().map(|end| end.number).filter(|number| *number > 0).collect());
    let judged = peers.iter().zip(ends).map(|(peer, end)| match end {
        Some(end) => {
            judge(&end, holders.get(&end.number).map_or(&[], Vec::as_slice), || find_hidden(end.number))
        }
        None if is_here(*peer) => PeerProcess::Gone,
        None => PeerProcess::Person,
    });
    judged.max().unwrap_or(PeerProcess::Person)
}

/// The other end of a connection that this process has. A port serves connections to several places at once, and those
/// that have ended stay in the table for a while: only the one that leads to our end counts.
pub(super) fn other_end(peer: SocketAddr, sockets: &[TcpSocket], own: &HashSet<u64>) -> Option<TcpSocket> {
    let ours = |place: SocketAddr| {
        let is_ours = |socket: &TcpSocket| own.contains(&socket.number);
        sockets.iter().any(|socket| socket.local == place && socket.remote == peer && is_ours(socket))
    };
    let leads_here = |socket: &&TcpSocket| socket.local == peer && !socket.listening && ours(socket.remote);
    sockets.iter().find(leads_here).copied()
}

fn judge(end: &TcpSocket, holders: &[i32], find_hidden: impl FnOnce() -> PeerProcess) -> PeerProcess {
    // The client is in this very process. A child that has a copy is about to become a program, and loses it then: nothing
    // that is started here inherits a socket, and nothing can give one to us.
    if holders.contains(&getpid().as_raw_pid()) {
        return PeerProcess::Person;
    }
    // One that has ended tells nothing: a client that starts a program is two processes for a moment.
    let living: Vec<bool> = holders.iter().filter_map(|process| is_of_a_call(*process)).collect();
    if living.contains(&true) {
        return PeerProcess::Agent;
    }
    match (end.number, living.is_empty(), holders.is_empty()) {
        (0, ..) | (_, true, false) => PeerProcess::Gone,
        (_, false, _) => PeerProcess::Person,
        // What another account has open is shown to root only; what is started here runs as this one.
        _ if end.account != geteuid().as_raw() && !geteuid().is_root() => PeerProcess::Person,
        _ => find_hidden(),
    }
}

/// The other ends of all connections that this process has accepted.
fn connected(sockets: &[TcpSocket], own: &HashSet<u64>) -> Vec<SocketAddr> {
    let ours = |socket: &&TcpSocket| own.contains(&socket.number);
    let listening =
        |port: u16| sockets.iter().filter(ours).any(|socket| socket.listening && socket.local.port() == port);
    let accepted = sockets.iter().filter(ours).filter(|socket| !socket.listening);
    accepted.filter(|socket| listening(socket.local.port())).map(|socket| socket.remote).collect()
}

/// Whether an address is one of this machine: only those can be listened at.
pub(super) fn is_here(peer: SocketAddr) -> bool {
    let mut place = peer;
    place.set_port(0);
    peer.ip().is_loopback() || UdpSocket::bind(place).is_ok()
}

/// The processes that have each of these sockets open.
pub(super) fn holders(wanted: &HashSet<u64>) -> HashMap<u64, Vec<i32>> {
    let mut holders: HashMap<u64, Vec<i32>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for process in processes {
        for number in
            numbers(Path::new(&format!("/proc/{process}/fd"))).filter(|number| wanted.contains(number))
        {
            holders.entry(number).or_default().push(process);
        }
    }
    holders
}

/// The numbers of the sockets in a folder of open files.
fn numbers(folder: &Path) -> impl Iterator<Item = u64> + use<> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| {
        let link = fs::read_link(file.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_connection_from_the_same_port_is_not_the_one() {
        // It was taken for the sender, who had left it long ago, and a person's answer was refused.
        let socket = |local: &str, remote: &str, number: u64| TcpSocket {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            listening: false,
            account: 0,
            number,
        };
        let (ours, theirs) =
            (socket("127.0.0.1:4096", "127.0.0.1:50000", 1), socket("127.0.0.1:50000", "127.0.0.1:4096", 2));
        let ended = socket("127.0.0.1:50000", "127.0.0.1:9999", 0);
        let find = |sockets: &[TcpSocket]| other_end(theirs.local, sockets, &HashSet::from([1]));
        assert_eq!(find(&[ended, ours, theirs]), Some(theirs));
        assert_eq!(find(&[ended, ours]), None);
        assert_eq!(find(&[ended, theirs]), None);
    }

    #[test]
    fn a_process_that_has_ended_makes_nobody_a_program_of_an_agent() {
        // A client that starts a program is two processes for a moment, of which one is gone at the next look. A person's
        // answer was refused for it.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let (own, ended) = (std::process::id().cast_signed(), child.id().cast_signed());
        let place = "127.0.0.1:1".parse().unwrap();
        let account = geteuid().as_raw();
        let end = TcpSocket { local: place, remote: place, listening: false, account, number: 2 };
        let check = |holders: &[i32], expected| {
            assert_eq!(judge(&end, holders, || PeerProcess::Gone), expected, "{holders:?}");
        };
        check(&[own], PeerProcess::Person);
        check(&[ended, own], PeerProcess::Person);
        check(&[ended], PeerProcess::Gone);
        check(&[], PeerProcess::Gone);
    }

    #[test]
    fn a_child_that_is_about_to_be_a_program_takes_no_connection_from_us() {
        // A person's answer was refused where client and server are one process: for a moment each child has its sockets.
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (own, running) = (std::process::id().cast_signed(), child.id().cast_signed());
        let place = "127.0.0.1:1".parse().unwrap();
        let account = geteuid().as_raw();
        let end = TcpSocket { local: place, remote: place, listening: false, account, number: 2 };
        let found = [&[running][..], &[running, own], &[running, 1]]
            .map(|holders| judge(&end, holders, || PeerProcess::Gone));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [PeerProcess::Agent, PeerProcess::Person, PeerProcess::Agent]);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_table_of_connections_is_understood() {
        let line =
            "   1: 0100007F:1000 0200A8C0:D431 01 00000000:00000000 00:00000000 00000000  1000        0 17 1";
        let expected = TcpSocket {
            local: "127.0.0.1:4096".parse().unwrap(),
            remote: "192.168.0.2:54321".parse().unwrap(),
            listening: false,
            account: 1000,
            number: 17,
        };
        assert_eq!(TcpSocket::parse(line), Some(expected));
        let parse = |text: &str| address(text).map(|address| address.to_string());
        assert_eq!(parse("00000000000000000000000001000000:0050").as_deref(), Some("[::1]:80"));
        assert_eq!(parse("0000000000000000FFFF00000100007F:0050").as_deref(), Some("127.0.0.1:80"));
        for broken in ["", "0100007F", "0100007:0050", "X100007F:0050", "0100007F:XYZW"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
        assert_eq!(TcpSocket::parse("sl local_address rem_address st"), None);
    }
}
