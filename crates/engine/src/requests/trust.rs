//! Requests for trust: what a project's configuration asks for, shown to whoever works in a client.
//!
//! Such a request belongs to a session and to no call. Nothing waits for it: the work goes on with what the person has
//! trusted so far, and an answer takes effect with the next turn. No rule decides about it, and no approval of something
//! else. Only `always` trusts, exactly what was shown: `once` is what clients say by themselves to every request when they
//! are told to approve, so it grants nothing, and the person is asked again when the session goes on.

use std::path::Path;

use everturn_model::request::{Ask, PROJECT_TRUST, Reply, Request};
use everturn_model::secret_shape::mask;
use everturn_model::{Event, Session, SessionId};
use everturn_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ignore_gone, settle};
use crate::background::blocking;
use crate::config::{HeldContent, HeldItem};
use crate::configurations::Configurations;
use crate::journal::Journal;
use crate::{Config, Error};

/// How many rows one request has. OpenCode's terminal has no room for more, and draws them over each other. What is left is
/// asked for after that, and what does not fit by itself is not asked for.
const TRUST_ROW_LIMIT: usize = 6;

/// How many columns a row of it has.
const TRUST_ROW: usize = 66;

/// What a client can tell the person.
const NOTE: &str = "The project's configuration asks for this, and nobody has trusted it: until then it does not count. Only \
                    `always` trusts it, as it is shown and in this folder, from the next turn on; `everturn trust \
                    --revoke` takes that back.";

/// Asks for trust in projects, and takes the answers; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct TrustRequests {
    store: Store,
    journal: Journal,
    configurations: Configurations,
}

/// What a request for trust shows; its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TrustQuestion {
    note: String,
    /// The folder in which it would be trusted.
    folder: String,
    /// All that the project asks for there, in short.
    digest: String,
    items: Vec<QuestionedItem>,
    /// How many more things there are, which did not fit.
    more: usize,
}

/// One thing of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct QuestionedItem {
    name: String,
    words: String,
    /// What it says, if nothing under its name was trusted before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// What has changed in it since it was trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    digest: String,
    /// What a client shows that knows nothing of this, before `always` is sent.
    #[serde(default)]
    lines: Vec<String>,
}

impl TrustRequests {
    /// Requests for trust of the sessions of a store.
    pub(crate) fn new(store: Store, journal: Journal, configurations: Configurations) -> Self {
        Self { store, journal, configurations }
    }

    /// Asks for what the project of a session holds, unless that is asked for already or was refused there. Takes back
    /// what is not to be answered any more. `waiting` has what the session asks. To be called when its work begins.
    pub(crate) async fn review(&self, session: &Session, waiting: Vec<&Request>) -> Result<(), Error> {
        // Whoever works for another session is not talked to.
        if session.parent.is_some() {
            return Ok(());
        }
        let question = self.question(session).await?;
        let digest = question.as_ref().map(|question| question.digest.as_str());
        let waiting = waiting.into_iter().filter(|request| request.trust_digest().is_some());
        let (current, stale): (Vec<&Request>, Vec<&Request>) =
            waiting.partition(|request| request.trust_digest() == digest);
        // Two may have been asked at once.
        for request in stale.into_iter().chain(current.iter().skip(1).copied()) {
            ignore_gone(self.settle(&session.id, request, None, None).await)?;
        }
        match question {
            Some(question) if current.is_empty() && !session.refused_trust.contains(&question.digest) => {
                self.journal.append(&session.id, vec![self.asked(&question)]).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The same for a session whose work does not begin.
    pub(crate) async fn review_stored(&self, id: &SessionId) -> Result<(), Error> {
        let session = self.journal.session(id).await?;
        let waiting = self.store.requests().await?;
        let own = waiting.iter().filter(|(asking, _)| asking == id).map(|(_, request)| request).collect();
        self.review(&session, own).await
    }

    /// What there is to ask in the folder of a session.
    async fn question(&self, session: &Session) -> Result<Option<TrustQuestion>, Error> {
        let config = self.configurations.at(Path::new(&session.directory)).await;
        let Some(trust) = self.configurations.trust().filter(|_| !config.held.is_empty()) else {
            return Ok(None);
        };
        let trust = trust.clone();
        blocking(move || TrustQuestion::new(&config, config.held_items(&trust))).await
    }

    fn asked(&self, question: &TrustQuestion) -> Event {
        let mint = self.journal.mint();
        let request = Request::new(mint.request(), mint.now(), question.ask(), None);
        Event::RequestAsked { request: Box::new(request) }
    }

    /// Takes the answer to such a request.
    pub(super) async fn reply(
        &self,
        session: &Session,
        request: &Request,
        reply: Reply,
        message: Option<String>,
    ) -> Result<(), Error> {
        if reply != Reply::Always {
            return self.settle(&session.id, request, Some(reply), message).await;
        }
        let config = self.configurations.at(Path::new(&session.directory)).await;
        let Some(shown) = TrustQuestion::of(request).filter(|shown| shown.is_current(&config)) else {
            return self.replace(session, request).await;
        };
        // First the answer, so that of two at once the first one counts.
        self.settle(&session.id, request, Some(reply), message).await?;
        if let Some(trust) = self.configurations.trust() {
            let trust = trust.clone();
            blocking(move || {
                let held = config.held.iter().filter(|(name, _)| shown.names(name));
                trust.grant(&config.root, held.map(|(name, value)| (name.as_str(), value)))
            })
            .await??;
        }
        // What had no room is asked for now.
        self.review(session, Vec::new()).await?;
        // The same was asked in other sessions of the folder.
        for (other, same) in self.store.requests().await? {
            if same.trust_digest() == request.trust_digest() {
                ignore_gone(self.settle(&other, &same, Some(reply), None).await)?;
            }
        }
        Ok(())
    }

    /// Takes a request back, and asks for what the project asks for by now.
    async fn replace(&self, session: &Session, request: &Request) -> Result<(), Error> {
        let mut events = vec![answer(request, None, None)];
        events.extend(self.question(session).await?.map(|question| self.asked(&question)));
        settle(&self.journal, &session.id, &request.id, events).await
    }

    /// Takes a request back, without an answer: whoever comes to work in the session is asked again.
    pub(super) async fn put_off(&self, session: &SessionId, request: &Request) -> Result<(), Error> {
        self.settle(session, request, None, None).await
    }

    async fn settle(
        &self,
        session: &SessionId,
        request: &Request,
        reply: Option<Reply>,
        message: Option<String>,
    ) -> Result<(), Error> {
        settle(&self.journal, session, &request.id, vec![answer(request, reply, message)]).await
    }
}

fn answer(request: &Request, reply: Option<Reply>, message: Option<String>) -> Event {
    Event::RequestAnswered {
        id: request.id.clone(),
        call: None,
        reply,
        message,
        answers: None,
        follows: None,
    }
}

impl TrustQuestion {
    /// What of this there is room for; nothing if that is nothing.
    fn new(config: &Config, mut held: Vec<HeldItem>) -> Option<Self> {
        let (mut items, mut rows, mut more) = (Vec::new(), 0, 0);
        held.sort_by_key(HeldItem::rank);
        for item in held {
            let item = QuestionedItem::new(item);
            if rows + item.lines.len() <= TRUST_ROW_LIMIT {
                rows += item.lines.len();
                items.push(item);
            } else {
                more += 1;
            }
        }
        let folder = config.root.display().to_string();
        let question = Self { note: NOTE.to_owned(), folder, digest: config.held_digest(), items, more };
        Some(question).filter(|question| !question.items.is_empty())
    }

    /// What a request shows.
    fn of(request: &Request) -> Option<Self> {
        match &request.ask {
            Ask::Permission { metadata, .. } => serde_json::from_value(Value::Object(metadata.clone())).ok(),
            Ask::Question { .. } => None,
        }
    }

    fn ask(&self) -> Ask {
        Ask::Permission {
            permission: PROJECT_TRUST.to_owned(),
            patterns: self.items.iter().map(|item| visible(&item.name)).collect(),
            // OpenCode's terminal shows of an unknown permission this alone, before `always` is sent, each as one line.
            always: self.items.iter().flat_map(|item| item.lines.iter().cloned()).collect(),
            metadata: match serde_json::to_value(self) {
                Ok(Value::Object(metadata)) => metadata,
                _ => everturn_model::Map::new(),
            },
        }
    }

    fn names(&self, name: &str) -> bool {
        self.items.iter().any(|item| item.name == name)
    }

    /// Whether everything that is held was shown as it is, or at least that it was there: what was trusted meanwhile may
    /// be missing.
    fn is_current(&self, config: &Config) -> bool {
        let shown = |item: HeldItem| {
            self.items.iter().any(|known| known.name == item.name && known.digest == item.digest)
        };
        let held = || config.held.iter().map(|(name, value)| HeldItem::new(name, value, None));
        self.digest == config.held_digest()
            || self.folder == config.root.display().to_string() && held().all(shown)
    }
}

impl QuestionedItem {
    fn new(item: HeldItem) -> Self {
        let HeldItem { name, words, content, digest, lines } = item;
        let lines = rows(&visible(&format!("{name}: {}", lines.join("; "))));
        let words = visible(&words);
        // What a project has written there may be a key.
        let shown = |text: &str| Some(visible_lines(&mask(text)));
        let (content, diff) = match content {
            HeldContent::Whole(text) => (shown(&text), None),
            HeldContent::Diff(text) => (None, shown(&text)),
        };
        Self { name, words, content, diff, digest, lines }
    }
}

/// A line as rows of a narrow terminal, which draws longer ones over each other.
fn rows(line: &str) -> Vec<String> {
    let (mut rows, mut row, mut width) = (Vec::new(), String::new(), 0);
    for letter in line.chars() {
        // Many others are as wide as two.
        width += if letter.is_ascii() { 1 } else { 2 };
        if width > TRUST_ROW {
            rows.push(std::mem::take(&mut row));
            row.push_str("  ");
            width = 4;
        }
        row.push(letter);
    }
    rows.push(row);
    rows
}

/// Text as one line in which nothing steers a terminal or turns the direction of writing around.
fn visible(text: &str) -> String {
    let steers = |character: char| {
        character.is_control()
            || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The same with the lines that it has.
fn visible_lines(text: &str) -> String {
    text.lines().flat_map(|line| [visible(line), "\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(held: &Value) -> (Config, Option<TrustQuestion>) {
        let mut config = Config::default();
        config.root = "/srv/demo".into();
        config.held = held.as_object().cloned().unwrap().into_iter().collect();
        let items = config.held.iter().map(|(name, value)| HeldItem::new(name, value, None)).collect();
        let question = TrustQuestion::new(&config, items);
        (config, question)
    }

    #[test]
    fn what_does_not_fit_is_not_asked_for() {
        // Whoever answers trusts what they saw, so nothing is cut.
        let check = |held: Value, names: &[&str], more: usize| {
            let shown = question(&held).1.unwrap();
            let seen: Vec<&str> = shown.items.iter().map(|item| item.name.as_str()).collect();
            assert_eq!((seen.as_slice(), shown.more), (names, more));
        };
        let long = "x ".repeat(TRUST_ROW_LIMIT * TRUST_ROW / 2);
        check(json!({"mcp.long": long, "model": "a/b"}), &["model"], 1);
        assert_eq!(question(&json!({"mcp.long": long})).1, None);
        let half = "x ".repeat(TRUST_ROW_LIMIT * TRUST_ROW / 4);
        check(json!({"mcp.a": half, "mcp.b": half, "model": "a/b"}), &["mcp.a", "model"], 1);
        let many: serde_json::Map<String, Value> =
            (0..TRUST_ROW_LIMIT + 3).map(|number| (format!("mcp.{number:03}"), json!(1))).collect();
        let shown = question(&many.into()).1.unwrap();
        assert_eq!((shown.items.len(), shown.more), (TRUST_ROW_LIMIT, 3));
    }

    #[test]
    fn a_question_holds_for_what_it_showed() {
        let check = |now: Value, root: &str| {
            let (_, shown) = question(&json!({"model": "a/b", "mcp.docs": {"command": ["docs"]}}));
            let (mut config, _) = question(&now);
            config.root = root.into();
            shown.unwrap().is_current(&config)
        };
        let same = json!({"model": "a/b", "mcp.docs": {"command": ["docs"]}});
        assert!(check(same.clone(), "/srv/demo"));
        assert!(check(json!({"model": "a/b"}), "/srv/demo"), "the rest was trusted meanwhile");
        assert!(check(json!({}), "/srv/demo"));
        assert!(!check(same, "/srv/other"));
        assert!(!check(json!({"model": "a/c"}), "/srv/demo"));
        assert!(!check(json!({"model": "a/b", "mcp.more": {"command": ["docs"]}}), "/srv/demo"));
    }

    #[test]
    fn what_is_shown_hides_no_lines_and_shows_no_keys() {
        let held =
            json!({"mcp.a\n- \u{1b}[2Jb": {"x": "\u{202e}a\u{9b}", "key": "sk-proj-0123456789abcdef"}});
        let ask = question(&held).1.unwrap().ask();
        let Ask::Permission { patterns, always, metadata, .. } = ask else { panic!("{ask:?}") };
        assert_eq!(patterns, ["mcp.a\\u{a}- \\u{1b}[2Jb"]);
        let name = "mcp.a\\u{a}- \\u{1b}[2Jb";
        let shown = format!("{name}: \\u{{202e}}a\\u{{9b}} (x); [hidden] (key)");
        assert_eq!(always, [shown]);
        assert!(!Value::Object(metadata).to_string().contains("sk-proj"));
    }
}
