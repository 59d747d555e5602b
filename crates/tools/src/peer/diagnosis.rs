//! One connection of this machine, asked for by its two ends. The table of all of them takes longer the more there are.

use std::net::{IpAddr, SocketAddr};

use rustix::io::{self, Errno};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// The kind of a message that asks for a socket, or tells of one.
const BY_FAMILY: u16 = 20;
/// The kind of a message that tells of an error.
const ERROR: u16 = 2;
/// Marks a message that asks for something.
const REQUEST: u16 = 1;
/// The protocol of the connections.
const TCP: u8 = 6;
/// The head of each message: length, kind, marks, number, sender.
const HEAD: usize = 16;
/// How long a message is that asks for a socket.
const QUESTION: u32 = 72;
/// Where a message that tells of a socket has the ports of its two ends, and the number that it has among open files.
const PORTS: usize = HEAD + 4;
const NUMBER: usize = HEAD + 68;

/// The number among open files of the socket that has these ends, zero if no process has it any more; nothing if there is
/// no such socket.
///
/// # Errors
///
/// The system does not answer such questions. Then it may also say that there is no such socket.
pub(super) fn number_of(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u64>> {
    let line = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    send(&line, &question(local, remote), SendFlags::empty())?;
    let mut answer = [0; 4096];
    // It is there when the question has been sent.
    let (_, length) = recv(&line, &mut answer, RecvFlags::DONTWAIT)?;
    read(answer.get(..length).unwrap_or_default(), local, remote)
}

fn question(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let mut message = Vec::new();
    let any = u32::MAX.to_ne_bytes();
    let (family, interface) = match local {
        SocketAddr::V4(_) => (AddressFamily::INET, 0),
        SocketAddr::V6(address) => (AddressFamily::INET6, address.scope_id()),
    };
    message.extend(QUESTION.to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([u8::try_from(family.as_raw()).unwrap_or_default(), TCP, 0, 0]);
    // In any state.
    message.extend(any);
    message.extend(local.port().to_be_bytes());
    message.extend(remote.port().to_be_bytes());
    message.extend(sixteen_bytes(local.ip()));
    message.extend(sixteen_bytes(remote.ip()));
    message.extend(interface.to_ne_bytes());
    // Whichever socket that is.
    message.extend(any);
    message.extend(any);
    message
}

fn sixteen_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}

fn read(answer: &[u8], local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u64>> {
    let kind = word(answer, 4).map(u16::from_ne_bytes);
    if kind == Some(ERROR) {
        let number = word(answer, HEAD).map_or(0, i32::from_ne_bytes);
        let error = Errno::from_raw_os_error(number.checked_neg().unwrap_or_default());
        return if error == Errno::NOENT { Ok(None) } else { Err(error) };
    }
    let ports =
        (word(answer, PORTS).map(u16::from_be_bytes), word(answer, PORTS + 2).map(u16::from_be_bytes));
    let number = word(answer, NUMBER).map(u32::from_ne_bytes);
    match number {
        Some(number) if kind == Some(BY_FAMILY) => {
            // Where there is no such connection, it is the socket that waits for connections there.
            Ok((ports == (Some(local.port()), Some(remote.port()))).then(|| u64::from(number)))
        }
        _ => Err(Errno::BADMSG),
    }
}

fn word<const LENGTH: usize>(bytes: &[u8], at: usize) -> Option<[u8; LENGTH]> {
    bytes.get(at..at + LENGTH)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    use super::*;

    /// The number of a socket of ours, as the list of open files has it.
    fn shown(stream: &TcpStream) -> u64 {
        let link = fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
        link.to_str().unwrap().trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn each_end_of_a_connection_is_found() {
        let check = |place: &str, to: Option<&str>| {
            let listener = TcpListener::bind(place).unwrap();
            let port = listener.local_addr().unwrap().port();
            let stream = to.map_or_else(
                || TcpStream::connect(listener.local_addr().unwrap()),
                |to| TcpStream::connect((to, port)),
            );
            let stream = stream.unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let canonical =
                |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
            let (peer, local) = (canonical(peer), canonical(accepted.local_addr().unwrap()));
            assert_eq!(number_of(peer, local), Ok(Some(shown(&stream))), "{place}");
            assert_eq!(number_of(local, peer), Ok(Some(shown(&accepted))), "{place}");
            // A port of which nothing is known, to a place where somebody waits.
            assert_eq!(number_of(local, SocketAddr::new(peer.ip(), 1)), Ok(None), "{place}");
            assert_eq!(number_of(SocketAddr::new(peer.ip(), 1), local), Ok(None), "{place}");
            drop(stream);
            assert!(matches!(number_of(peer, local), Ok(Some(0) | None)), "{place}");
        };
        check("127.0.0.1:0", None);
        check("[::1]:0", None);
        // An IPv4 connection of an IPv6 socket.
        check("[::]:0", Some("127.0.0.1"));
    }
}
