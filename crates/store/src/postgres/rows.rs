//! The second half of a group's transaction: writing what all its appends mean, one statement for each table.
//!
//! A statement must not touch the same row twice, so rows of several appends are merged first: the first one gives the
//! place, the last one the data. What was deleted on the way is deleted before the rest is written, so that a row that
//! comes again gets its new place.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash as StdHash;

use super::failure::ServerFailure;
use super::link::WriterConnection;
use super::pool::StatementValues;
use crate::append::StreamPiece;
use crate::payload::{Blob, Hash};
use crate::row::{BillRow, EndedStreams, EntryRow, InboxRow, LogRow, PartRow, Rows, SessionRow};
use crate::words;

/// The lock that whoever names a blob holds with others, and whoever collects blobs holds alone.
pub(super) const BLOBS: i64 = 0x4576_746e_0000_0002;

/// How many bytes of blobs go to the server at once.
const CHUNK: usize = 16 << 20;

/// Rows by key, in the order in which they first came.
#[derive(Debug)]
struct MergedRows<K, V> {
    rows: Vec<V>,
    at: HashMap<K, usize>,
}

impl<K, V> Default for MergedRows<K, V> {
    fn default() -> Self {
        Self { rows: Vec::new(), at: HashMap::new() }
    }
}

impl<K: Eq + StdHash, V> MergedRows<K, V> {
    /// Puts a row in; `merge` brings one that is there up to date.
    fn put(&mut self, key: K, row: V, merge: impl FnOnce(&mut V, V)) {
        match self.at.get(&key).and_then(|at| self.rows.get_mut(*at)) {
            Some(there) => merge(there, row),
            None => {
                self.at.insert(key, self.rows.len());
                self.rows.push(row);
            }
        }
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn column<'s, T>(&'s self, value: impl FnMut(&'s V) -> T) -> Vec<T> {
        self.rows.iter().map(value).collect()
    }
}

/// Session, entry, part and words of a text; without words it is no longer found.
type TextValues = (i64, String, String, Option<String>);

/// Everything that a group writes.
#[derive(Debug, Default)]
pub(super) struct GroupBatch {
    sessions: MergedRows<i64, (i64, SessionRow)>,
    /// Sessions that are given back.
    free: Vec<i64>,
    log: Vec<(i64, LogRow)>,
    entries: MergedRows<(i64, String), (i64, EntryRow)>,
    parts: MergedRows<(i64, String, String), (i64, PartRow)>,
    inbox: MergedRows<(i64, String), (i64, InboxRow)>,
    inbox_gone: BTreeSet<(i64, String)>,
    requests: MergedRows<String, (String, i64, Option<String>)>,
    requests_gone: BTreeSet<(String, i64)>,
    todos: MergedRows<i64, (i64, String)>,
    bill: MergedRows<(i64, u64, u64), (i64, BillRow)>,
    texts: MergedRows<(i64, String, String), TextValues>,
    texts_gone: BTreeSet<(i64, String, String)>,
    pieces: MergedRows<(i64, String, i64), (i64, i64, StreamPiece)>,
    ended: BTreeSet<(i64, Option<String>)>,
    blobs: BTreeMap<Hash, Blob>,
    uses: BTreeSet<(i64, Hash)>,
}

impl GroupBatch {
    /// Takes in what an append means for the session with this key.
    pub(super) fn add(&mut self, key: i64, session: SessionRow, log: Vec<LogRow>, rows: Rows) {
        self.sessions.put(key, (key, session), |there, row| *there = row);
        self.log.extend(log.into_iter().map(|row| (key, row)));
        for row in rows.entries {
            self.entries.put((key, row.id.clone()), (key, row), |there, (_, row)| {
                (there.1.parent, there.1.data) = (row.parent, row.data);
            });
        }
        for row in rows.parts {
            let place = (key, row.entry.clone(), row.id.clone());
            self.parts.put(place, (key, row), |there, (_, row)| there.1.data = row.data);
        }
        for row in rows.inbox {
            let place = (key, row.id.clone());
            if row.data.is_none() {
                self.inbox_gone.insert(place.clone());
            }
            self.inbox.put(place, (key, row), |there, (_, row)| {
                if there.1.data.is_none() {
                    there.1.order = row.order;
                }
                there.1.data = row.data;
            });
        }
        for row in rows.requests {
            if row.data.is_none() {
                self.requests_gone.insert((row.id.clone(), key));
            }
            self.requests.put(row.id.clone(), (row.id, key, row.data), |there, row| *there = row);
        }
        if let Some(todos) = rows.todos {
            self.todos.put(key, (key, todos), |there, row| *there = row);
        }
        self.add_bill(key, rows.bill);
        for row in rows.texts {
            let place = (key, row.entry.clone(), row.part.clone());
            if row.text.is_none() {
                self.texts_gone.insert(place.clone());
            }
            let words = row.text.map(|text| words::spaced(&text));
            self.texts.put(place, (key, row.entry, row.part, words), |there, row| *there = row);
        }
        self.ended.extend(rows.ended.into_iter().map(|ended| match ended {
            EndedStreams::Part(part) => (key, Some(part.to_string())),
            EndedStreams::All => (key, None),
        }));
        for blob in rows.blobs {
            self.uses.insert((key, blob.hash));
            self.blobs.insert(blob.hash, blob);
        }
    }

    /// Takes in that nobody has this session any more.
    pub(super) fn give_back(&mut self, key: i64) {
        self.free.push(key);
    }

    /// Takes in lines of a session's bill.
    pub(super) fn add_bill(&mut self, key: i64, bill: Vec<BillRow>) {
        for row in bill {
            self.bill.put((key, row.seq, row.line), (key, row), |there, row| *there = row);
        }
    }

    /// Takes in a piece of streamed text.
    pub(super) fn save(&mut self, key: i64, piece: &StreamPiece) {
        let start = i64::try_from(piece.start).unwrap_or(i64::MAX);
        let row = (key, start, piece.clone());
        self.pieces.put((key, piece.part.to_string(), start), row, |there, row| *there = row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.log.is_empty() && self.pieces.rows.is_empty()
    }

    /// Writes everything.
    pub(super) async fn write(&self, link: &WriterConnection) -> Result<(), ServerFailure> {
        self.write_blobs(link).await?;
        let statements = &link.statements;
        tokio::try_join!(
            biased;
            self.write_sessions(link),
            async { link.put(&statements.free_sessions, self.free.len(), &[&self.free]).await },
            self.write_log(link),
            async {
                link.put(
                    &statements.put_entries,
                    self.entries.len(),
                    &[
                        &self.entries.column(|(key, _)| *key),
                        &self.entries.column(|(_, row)| row.id.as_str()),
                        &self.entries.column(|(_, row)| row.order),
                        &self.entries.column(|(_, row)| row.parent.as_deref()),
                        &self.entries.column(|(_, row)| row.data.as_bytes()),
                    ],
                )
                .await
            },
            async {
                link.put(
                    &statements.put_parts,
                    self.parts.len(),
                    &[
                        &self.parts.column(|(key, _)| *key),
                        &self.parts.column(|(_, row)| row.entry.as_str()),
                        &self.parts.column(|(_, row)| row.id.as_str()),
                        &self.parts.column(|(_, row)| row.order),
                        &self.parts.column(|(_, row)| row.data.as_bytes()),
                    ],
                )
                .await
            },
            self.write_waiting(link),
            self.write_bill(link),
            self.write_texts(link),
            self.write_streams(link),
        )?;
        Ok(())
    }

    async fn write_sessions(&self, link: &WriterConnection) -> Result<(), ServerFailure> {
        let rows = &self.sessions;
        let text = |field: fn(&SessionRow) -> &str| rows.column(move |(_, row)| plain(field(row)));
        let number = |field: fn(&SessionRow) -> i64| rows.column(move |(_, row)| field(row));
        let values: StatementValues<'_> = &[
            &rows.column(|(key, _)| *key),
            &rows.column(|(_, row)| row.id.as_str()),
            &number(|row| i64::try_from(row.seq).unwrap_or(i64::MAX)),
            &text(|row| &row.project),
            &text(|row| &row.directory),
            &rows.column(|(_, row)| row.parent.as_deref()),
            &text(|row| &row.title),
            &text(|row| &row.folded),
            &number(|row| row.created),
            &number(|row| row.updated),
            &rows.column(|(_, row)| row.archived),
            &rows.column(|(_, row)| row.trashed),
            &rows.column(|(_, row)| row.open),
            &number(|row| row.spent.input),
            &number(|row| row.spent.output),
            &number(|row| row.spent.reasoning),
            &number(|row| row.spent.cache_read),
            &number(|row| row.spent.cache_write),
            &number(|row| row.spent.cost),
            &rows.column(|(_, row)| row.data.as_bytes()),
        ];
        link.put(&link.statements.put_sessions, rows.len(), values).await
    }

    async fn write_bill(&self, link: &WriterConnection) -> Result<(), ServerFailure> {
        let rows = &self.bill;
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let values: StatementValues<'_> = &[
            &rows.column(|(key, _)| *key),
            &rows.column(|(_, row)| number(row.seq)),
            &rows.column(|(_, row)| number(row.line)),
            &rows.column(|(_, row)| row.time),
            &rows.column(|(_, row)| row.provider.as_str()),
            &rows.column(|(_, row)| row.model.as_str()),
            &rows.column(|(_, row)| row.source.as_str()),
            &rows.column(|(_, row)| row.spent.input),
            &rows.column(|(_, row)| row.spent.output),
            &rows.column(|(_, row)| row.spent.reasoning),
            &rows.column(|(_, row)| row.spent.cache_read),
            &rows.column(|(_, row)| row.spent.cache_write),
            &rows.column(|(_, row)| row.spent.cost),
        ];
        link.put(&link.statements.put_bill, rows.len(), values).await
    }

    async fn write_log(&self, link: &WriterConnection) -> Result<(), ServerFailure> {
        let rows = &self.log;
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let values: StatementValues<'_> = &[
            &column(rows, |(key, _)| *key),
            &column(rows, |(_, row)| number(row.seq)),
            &column(rows, |(_, row)| row.id.as_str()),
            &column(rows, |(_, row)| row.time),
            &column(rows, |(_, row)| row.name.as_str()),
            &column(rows, |(_, row)| row.data.as_bytes()),
            &column(rows, |(_, row)| row.epoch.map(number)),
        ];
        link.put(&link.statements.put_log, rows.len(), values).await
    }

    /// Prompts, requests and tasks.
    async fn write_waiting(&self, link: &WriterConnection) -> Result<(), ServerFailure> {
        let statements = &link.statements;
        let inbox: Vec<(i64, &str, i64, &[u8])> = self
            .inbox
            .rows
            .iter()
            .filter_map(|(key, row)| {
                Some((*key, row.id.as_str(), row.order, row.data.as_deref()?.as_bytes()))
            })
            .collect();
        let requests: Vec<(&str, i64, &[u8])> = self
            .requests
            .rows
            .iter()
            .filter_map(|(id, key, data)| Some((id.as_str(), *key, data.as_deref()?.as_bytes())))
            .collect();
        let (gone_keys, gone): (Vec<i64>, Vec<&str>) =
            self.inbox_gone.iter().map(|(key, id)| (*key, id.as_str())).unzip();
        let (answered, of): (Vec<&str>, Vec<i64>) =
            self.requests_gone.iter().map(|(id, key)| (id.as_str(), *key)).unzip();
        tokio::try_join!(
            biased;
            async { link.put(&statements.drop_inbox, gone.len(), &[&gone_keys, &gone]).await },
            async {
                link.put(
                    &statements.put_inbox,
                    inbox.len(),
                    &[
                        &column(&inbox, |row| row.0),
                        &column(&inbox, |row| row.1),
                        &column(&inbox, |row| row.2),
                        &column(&inbox, |row| row.3),
                    ],
                )
                .await
            },
            async { link.put(&statements.drop_requests, answered.len(), &[&answered, &of]).await },
            async {
                let values: StatementValues<'_> = &[
                    &column(&requests, |row| row.0),
                    &column(&requests, |row| row.1),
                    &column(&requests, |row| row.2),
                ];
                link.put_all(&statements.put_requests, requests.len(), values).await
            },
            async {
                link.put(
                    &statements.put_todos,
                    self.todos.len(),
                    &[&self.todos.column(|(key, _)| *key), &self.todos.column(|(_, data)| data.as_bytes())],
                )
                .await
            },
        )?;
        Ok(())
    }

    async fn write_texts(&self, link: &WriterConnection) -> Result<(), ServerFailure> {
        let gone: Vec<&(i64, String, String)> = self.texts_gone.iter().collect();
        let rows: Vec<(i64, &str, &str, &str)> = self
            .texts
            .rows
            .iter()
            .filter_map(|(key, entry, part, words)| {
                Some((*key, entry.as_str(), part.as_str(), words.as_deref()?))
            })
            .collect();
        tokio::try_join!(
            biased;
            async {
                link.put(
                    &link.statements.drop_texts,
                    gone.len(),
                    &[
                        &column(&gone, |row| row.0),
                        &column(&gone, |row| row.1.as_str()),
                        &column(&gone, |row| row.2.as_str()),
                    ],
                )
                .await
            },
            async {
                link.put(
                    &link.statements.put_texts,
                    rows.len(),
                    &[
                        &column(&rows, |row| row.0),
                        &column(&rows, |row| row.1),
                        &column(&rows, |row| row.2),
                        &column(&rows, |row| row.3),
                    ],
                )
                .await
            },
        )?;
        Ok(())
    }

    /// Streamed text, and the end of what has its final value now.
    async fn write_streams(&self, link: &WriterConnection) -> Result<(), ServerFailure> {
        let pieces = &self.pieces;
        let ended: Vec<&(i64, Option<String>)> = self.ended.iter().collect();
        tokio::try_join!(
            biased;
            async {
                link.put(
                    &link.statements.put_streams,
                    pieces.len(),
                    &[
                        &pieces.column(|(key, _, _)| *key),
                        &pieces.column(|(_, _, piece)| piece.part.as_str()),
                        &pieces.column(|(_, start, _)| *start),
                        &pieces.column(|(_, _, piece)| piece.entry.as_str()),
                        &pieces.column(|(_, _, piece)| piece.text.as_bytes()),
                    ],
                )
                .await
            },
            async {
                link.put(
                    &link.statements.drop_streams,
                    ended.len(),
                    &[&column(&ended, |row| row.0), &column(&ended, |row| row.1.as_deref())],
                )
                .await
            },
        )?;
        Ok(())
    }

    async fn write_blobs(&self, link: &WriterConnection) -> Result<(), ServerFailure> {
        if self.blobs.is_empty() {
            return Ok(());
        }
        let statements = &link.statements;
        link.query(&statements.guard_blobs, &[&BLOBS]).await?;
        let mut blobs = self.blobs.values().peekable();
        while blobs.peek().is_some() {
            let mut size = 0;
            let mut chunk: Vec<&Blob> = Vec::new();
            while let Some(blob) = blobs.next_if(|blob| chunk.is_empty() || size + blob.packed.len() <= CHUNK)
            {
                size += blob.packed.len();
                chunk.push(blob);
            }
            let values: StatementValues<'_> = &[
                &column(&chunk, |blob| blob.hash.as_bytes().as_slice()),
                &column(&chunk, |blob| i64::try_from(blob.size).unwrap_or(i64::MAX)),
                &column(&chunk, |blob| blob.packed.as_slice()),
            ];
            link.put(&statements.put_blobs, chunk.len(), values).await?;
        }
        let uses: Vec<&(i64, Hash)> = self.uses.iter().collect();
        let values: StatementValues<'_> =
            &[&column(&uses, |(key, _)| *key), &column(&uses, |(_, hash)| hash.as_bytes().as_slice())];
        link.put(&statements.use_blobs, uses.len(), values).await
    }
}

fn column<'r, R, T>(rows: &'r [R], value: impl FnMut(&'r R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// Text that the server takes. It has no NUL in texts; what such a text really says is in the row's JSON.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}
