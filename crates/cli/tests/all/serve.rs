//! The server as a process: how it begins and ends.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::shell::Home;

/// A way out that takes nothing more until the other end is read.
fn blocked() -> (UnixStream, OwnedFd) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    for size in [1 << 16, 1] {
        let piece = vec![b' '; size];
        loop {
            match writer.write(&piece) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    writer.set_nonblocking(false).unwrap();
    (reader, writer.into())
}

#[test]
fn a_server_that_says_where_it_listens_can_be_stopped() {
    // It said so before it listened for signals: whoever stopped it at once killed it in the midst of its start.
    let home = Home::new();
    let (mut told, errors) = blocked();
    let mut command = home.command(&["serve", "--port", "0"]);
    // What it tells people right after the line waits until it is read, and so does the server.
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::from(errors)).spawn().unwrap();
    // The other end is closed with the child alone.
    drop(command);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.starts_with("everturn server listening on http://127.0.0.1:"), "{line}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut text = String::new();
    told.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    assert!(text.contains("user `opencode`, password"), "{text}");
}
