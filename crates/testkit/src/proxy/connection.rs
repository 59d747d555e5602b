//! One connection from a client through the proxy to the server, and how it is cut.
//!
//! For a cut after the answer one has to know which answer belongs to which request, although a client may send many
//! requests before it reads. The server ends each with `ReadyForQuery`, so counting these is enough. Only `COPY … FROM
//! STDIN` as a prepared statement is an exception, which is not taken care of: the server ignores a sync in it.

use std::io::Result;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::rules::{MessageVerdict, ProxyRules};
use super::wire::{ClientStatements, WireMessage};

/// How long both sides may take to notice a cut before their sockets are closed for good.
const FAREWELL: Duration = Duration::from_secs(5);

/// `ReadyForQuery`.
const READY: u8 = b'Z';

/// One end of the connection.
struct ConnectionSide {
    read: BufReader<OwnedReadHalf>,
    write: BufWriter<OwnedWriteHalf>,
}

impl ConnectionSide {
    fn new(stream: TcpStream) -> Self {
        // The proxy shall not delay what the client did not delay. It works without that too.
        let _ = stream.set_nodelay(true);
        let (read, write) = stream.into_split();
        Self { read: BufReader::new(read), write: BufWriter::new(write) }
    }
}

/// How one direction of the traffic, or all of it, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrafficEnd {
    /// By the peers.
    Closed,
    /// By a rule.
    Cut,
}

/// What the opening of a connection led to.
enum ConnectionOpening {
    Ended(TrafficEnd),
    Encrypted,
    Plain,
}

/// Which answers the server owes and has given, as counts of `ReadyForQuery`.
#[derive(Debug)]
struct AnswerCounts {
    due: u64,
    given: u64,
    /// The one after which the connection is cut. It is kept from the client.
    last: Option<u64>,
}

/// Carries the traffic of one connection until it ends.
pub(super) async fn carry(client: TcpStream, server: TcpStream, rules: &ProxyRules) {
    let (mut client, mut server) = (ConnectionSide::new(client), ConnectionSide::new(server));
    if let Ok(TrafficEnd::Cut) = converse(&mut client, &mut server, rules).await {
        // Nothing to be told about the farewell of a connection that is broken anyway.
        let _ = tokio::time::timeout(FAREWELL, part(&mut client, &mut server)).await;
    }
}

/// Ends both sides and lets them send into the void until they notice. Closing a socket with unread data in it would
/// make the system take back what was sent before.
async fn part(client: &mut ConnectionSide, server: &mut ConnectionSide) {
    let _ = tokio::join!(client.write.shutdown(), server.write.shutdown());
    let (mut one, mut other) = (tokio::io::sink(), tokio::io::sink());
    let client = tokio::io::copy_buf(&mut client.read, &mut one);
    let server = tokio::io::copy_buf(&mut server.read, &mut other);
    let _ = tokio::join!(client, server);
}

async fn converse(
    client: &mut ConnectionSide,
    server: &mut ConnectionSide,
    rules: &ProxyRules,
) -> Result<TrafficEnd> {
    match open(client, server, rules).await? {
        ConnectionOpening::Ended(end) => return Ok(end),
        ConnectionOpening::Encrypted => {
            let requests = pass_blindly(&mut client.read, &mut server.write, rules);
            let answers = pass_blindly(&mut server.read, &mut client.write, rules);
            tokio::try_join!(requests, answers)?;
            return Ok(TrafficEnd::Closed);
        }
        ConnectionOpening::Plain => {}
    }
    // The first one ends the opening.
    let answers = Mutex::new(AnswerCounts { due: 1, given: 0, last: None });
    let requests = pass_requests(&mut client.read, &mut server.write, rules, &answers);
    let responses = pass_answers(&mut server.read, &mut client.write, rules, &answers);
    tokio::pin!(requests, responses);
    let (mut requesting, mut responding) = (true, true);
    while requesting || responding {
        let end = tokio::select! {
            end = &mut requests, if requesting => { requesting = false; end? }
            end = &mut responses, if responding => { responding = false; end? }
        };
        if end == TrafficEnd::Cut {
            return Ok(TrafficEnd::Cut);
        }
    }
    Ok(TrafficEnd::Closed)
}

/// The messages before the tagged ones: perhaps questions for encryption, then the startup.
async fn open(
    client: &mut ConnectionSide,
    server: &mut ConnectionSide,
    rules: &ProxyRules,
) -> Result<ConnectionOpening> {
    loop {
        let Some(message) = WireMessage::read_first(&mut client.read).await? else {
            return Ok(ConnectionOpening::Ended(TrafficEnd::Closed));
        };
        rules.wait_while_stopped().await;
        if rules.judge(None) == MessageVerdict::Cut {
            return Ok(ConnectionOpening::Ended(TrafficEnd::Cut));
        }
        server.write.write_all(&message.bytes).await?;
        server.write.flush().await?;
        if !message.asks_for_encryption() {
            return Ok(ConnectionOpening::Plain);
        }
        let answer = server.read.read_u8().await?;
        rules.wait_while_stopped().await;
        client.write.write_u8(answer).await?;
        client.write.flush().await?;
        if matches!(answer, b'S' | b'G') {
            return Ok(ConnectionOpening::Encrypted);
        }
    }
}

async fn pass_requests(
    from: &mut BufReader<OwnedReadHalf>,
    to: &mut BufWriter<OwnedWriteHalf>,
    rules: &ProxyRules,
    answers: &Mutex<AnswerCounts>,
) -> Result<TrafficEnd> {
    let mut statements = ClientStatements::default();
    while let Some(message) = WireMessage::read(from).await? {
        rules.wait_while_stopped().await;
        let verdict = rules.judge(statements.note(&message).as_ref());
        if verdict == MessageVerdict::Cut {
            to.flush().await?;
            return Ok(TrafficEnd::Cut);
        }
        let is_last = {
            let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            let ends = message.ends_request();
            if verdict == MessageVerdict::PassLast {
                // A query ends its request itself, other messages leave that to a sync that is still to come.
                answers.last = Some(answers.due + 1);
            }
            answers.due += u64::from(ends);
            ends && answers.last == Some(answers.due)
        };
        to.write_all(&message.bytes).await?;
        if is_last {
            to.flush().await?;
            // What follows is not passed on. The other direction cuts.
            return std::future::pending().await;
        }
        // Messages that came together go on together.
        if from.buffer().is_empty() {
            to.flush().await?;
        }
    }
    to.shutdown().await?;
    Ok(TrafficEnd::Closed)
}

async fn pass_answers(
    from: &mut BufReader<OwnedReadHalf>,
    to: &mut BufWriter<OwnedWriteHalf>,
    rules: &ProxyRules,
    answers: &Mutex<AnswerCounts>,
) -> Result<TrafficEnd> {
    while let Some(message) = WireMessage::read(from).await? {
        rules.wait_while_stopped().await;
        let (is_secret, is_last) = {
            let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            let is_secret = answers.last == Some(answers.given + 1);
            answers.given += u64::from(message.tag() == READY);
            (is_secret, answers.last == Some(answers.given))
        };
        if is_last {
            to.flush().await?;
            rules.note_fired();
            return Ok(TrafficEnd::Cut);
        }
        if !is_secret {
            to.write_all(&message.bytes).await?;
        }
        if from.buffer().is_empty() {
            to.flush().await?;
        }
    }
    to.shutdown().await?;
    Ok(TrafficEnd::Closed)
}

async fn pass_blindly(
    from: &mut BufReader<OwnedReadHalf>,
    to: &mut BufWriter<OwnedWriteHalf>,
    rules: &ProxyRules,
) -> Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut buffer).await?;
        rules.wait_while_stopped().await;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..length).unwrap_or_default()).await?;
        to.flush().await?;
    }
}
