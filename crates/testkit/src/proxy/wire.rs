//! As much of PostgreSQL's protocol as a proxy needs: where messages begin and end, and which SQL they are about.

use std::collections::HashMap;
use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest message that is passed on. Anything longer is not this protocol.
const LONGEST: usize = 256 << 20;

/// The longest first message, as in the server.
const LONGEST_FIRST: usize = 10_000;

/// A whole message, as it was sent.
#[derive(Debug)]
pub(super) struct WireMessage {
    pub(super) bytes: Vec<u8>,
    /// Where its content begins: after the tag, if it has one, and the length.
    start: usize,
}

impl WireMessage {
    /// Reads a message that begins with a tag. None if the connection has ended.
    pub(super) async fn read(reader: &mut (impl AsyncRead + Unpin)) -> Result<Option<Self>> {
        let mut tag = [0];
        if reader.read(&mut tag).await? == 0 {
            return Ok(None);
        }
        Self::read_rest(reader, &tag, LONGEST).await.map(Some)
    }

    /// Reads one of the messages that open a connection, which have no tag. None if the connection has ended.
    pub(super) async fn read_first(reader: &mut (impl AsyncRead + Unpin)) -> Result<Option<Self>> {
        match Self::read_rest(reader, &[], LONGEST_FIRST).await {
            Err(cause) if cause.kind() == ErrorKind::UnexpectedEof => Ok(None),
            result => result.map(Some),
        }
    }

    async fn read_rest(reader: &mut (impl AsyncRead + Unpin), tag: &[u8], longest: usize) -> Result<Self> {
        let mut length = [0; 4];
        reader.read_exact(&mut length).await?;
        // The length counts itself.
        let rest = usize::try_from(u32::from_be_bytes(length)).ok().and_then(|length| length.checked_sub(4));
        let rest = rest.filter(|rest| *rest <= longest);
        let rest = rest.ok_or_else(|| Error::new(ErrorKind::InvalidData, "not a message of PostgreSQL"))?;
        let mut bytes = [tag, &length].concat();
        let start = bytes.len();
        bytes.resize(start + rest, 0);
        reader.read_exact(bytes.get_mut(start..).unwrap_or_default()).await?;
        Ok(Self { bytes, start })
    }

    /// Its first byte, which says what it is.
    pub(super) fn tag(&self) -> u8 {
        self.bytes.first().copied().unwrap_or_default()
    }

    fn body(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Whether this opening message asks for encryption, with TLS or GSSAPI. The server answers with a single byte.
    pub(super) fn asks_for_encryption(&self) -> bool {
        let code = self.body().first_chunk().map(|code| u32::from_be_bytes(*code));
        matches!(code, Some(80_877_103 | 80_877_104))
    }

    /// Whether the server says `ReadyForQuery` once for this message of a client: a query, a function call or a sync.
    pub(super) fn ends_request(&self) -> bool {
        matches!(self.tag(), b'Q' | b'F' | b'S')
    }
}

/// The SQL that a message is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SqlUse<'a> {
    pub(super) sql: &'a str,
    /// Whether the message has it carried out, and not only prepared.
    pub(super) runs: bool,
}

/// The statements and portals a client has made on one connection. The one without a name has the empty name.
#[derive(Debug, Default)]
pub(super) struct ClientStatements {
    statements: HashMap<String, String>,
    portals: HashMap<String, String>,
    simple: String,
}

impl ClientStatements {
    /// Takes note of a client's message and says which SQL it is about.
    pub(super) fn note(&mut self, message: &WireMessage) -> Option<SqlUse<'_>> {
        let mut texts = message.body().split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut next = || texts.next().map(|text| text.into_owned()).unwrap_or_default();
        match message.tag() {
            b'Q' => {
                self.simple = next();
                Some(SqlUse { sql: &self.simple, runs: true })
            }
            b'P' => {
                let (name, sql) = (next(), next());
                let sql = self.statements.entry(name).insert_entry(sql).into_mut();
                Some(SqlUse { sql, runs: false })
            }
            b'B' => {
                let (portal, statement) = (next(), next());
                let sql = self.statements.get(&statement)?.clone();
                let sql = self.portals.entry(portal).insert_entry(sql).into_mut();
                Some(SqlUse { sql, runs: false })
            }
            b'E' => Some(SqlUse { sql: self.portals.get(&next())?, runs: true }),
            b'C' => {
                let target = next();
                match (target.get(..1), target.get(1..)) {
                    (Some("S"), Some(name)) => self.statements.remove(name),
                    (Some("P"), Some(name)) => self.portals.remove(name),
                    _ => None,
                };
                None
            }
            _ => None,
        }
    }
}
