//! What events, entries and parts of earlier versions looked like.
//!
//! An event is never rewritten, so a log holds every shape that was ever written. Until its fold was of version 2,
//! Everturn wrote names of OpenCode's V1 into its log: they are known here and nowhere else in `model`, `store` and
//! `engine`, and they mean what they meant then. `interop` has its own table for what clients are told today.
//!
//! Data in today's shapes passes with a look at the metadata of a tool part and at what rides along with an entry.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::entry::{Body, Entry, User};
use crate::fault::{ApiFault, Fault, FaultKind};
use crate::inbox::Delivery;
use crate::part::{Part, PartKind};
use crate::tool::{SeenFile, ToolResult};
use crate::{Event, Extra, Map};

/// What recovery wrote when a process had ended in the middle of an answer, under the name of an abort.
const CUT_OFF: &str = "The server ended while this answer was being written.";

/// How a call was marked that the provider runs itself, among the provider's own metadata.
const EXECUTED: &str = "providerExecuted";

/// The dialect of fields that are laid over what V1 shows of an entry or a part.
const V1: &str = "v1";

/// The dialect of fields that a V2 log brought.
const V2: &str = "v2";

/// Where fields of our own rode along, before they had types.
const OWN: &str = "everturn";

/// A fault that was stored as a name and data; or whatever another program gave as one.
pub(crate) fn fault(value: Value) -> Fault {
    let empty = Map::new();
    let data = value.get("data").and_then(Value::as_object).unwrap_or(&empty);
    let mut fields = FaultFields { data, seen: Vec::new(), exact: true };
    let message = fields.text("message");
    let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
    let kind = kind(name, message.as_deref(), &mut fields);
    let plain =
        value.as_object().is_some_and(|map| map.keys().eq(["name", "data"])) && kind != FaultKind::Imported;
    let came = !(plain && fields.is_exact() || value.is_null());
    Fault { kind, message, came: came.then(|| Box::new(value)) }
}

fn kind(name: &str, message: Option<&str>, fields: &mut FaultFields<'_>) -> FaultKind {
    match name {
        "UnknownError" => FaultKind::Internal,
        "MessageAbortedError" if message == Some(CUT_OFF) => FaultKind::CutOff,
        "MessageAbortedError" => FaultKind::Aborted,
        "ProviderAuthError" => {
            let provider = fields.text("providerID");
            fields.exact &= provider.is_some();
            FaultKind::Authentication { provider: provider.unwrap_or_default() }
        }
        "APIError" => FaultKind::Api(Box::new(ApiFault {
            status: fields.take("statusCode", Value::as_u64),
            retryable: fields.take("isRetryable", Value::as_bool),
            headers: fields.take("responseHeaders", headers),
            body: fields.text("responseBody"),
            url: fields.take("metadata", url),
        })),
        "ContextOverflowError" => FaultKind::ContextOverflow { body: fields.text("responseBody") },
        "MessageOutputLengthError" => FaultKind::OutputLength,
        "ContentFilterError" => FaultKind::ContentFilter,
        "StructuredOutputError" => {
            FaultKind::StructuredOutput { retries: fields.take("retries", Value::as_u64) }
        }
        _ => FaultKind::Imported,
    }
}

fn headers(value: &Value) -> Option<BTreeMap<String, String>> {
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    value.as_object()?.iter().map(text).collect()
}

fn url(value: &Value) -> Option<String> {
    value.get("url")?.as_str().map(str::to_owned)
}

/// The data of a fault, as far as it was taken.
struct FaultFields<'a> {
    data: &'a Map,
    /// What was taken, in the order in which it is written today.
    seen: Vec<&'static str>,
    /// Whether everything that was there could be taken.
    exact: bool,
}

impl FaultFields<'_> {
    fn take<T>(&mut self, key: &'static str, read: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        let value = self.data.get(key)?;
        self.seen.push(key);
        let taken = read(value);
        self.exact &= taken.is_some();
        taken
    }

    fn text(&mut self, key: &'static str) -> Option<String> {
        self.take(key, |value| value.as_str().map(str::to_owned))
    }

    /// Whether the types reproduce every byte. They write keys in an order of their own, headers sorted, and of what
    /// was asked only the address.
    fn is_exact(&self) -> bool {
        let inner = |key: &str| self.data.get(key).and_then(Value::as_object);
        self.exact
            && self.data.keys().eq(self.seen.iter())
            && inner("responseHeaders").is_none_or(|headers| headers.keys().is_sorted())
            && inner("metadata").is_none_or(|asked| asked.len() == 1)
    }
}

/// Brings a part to today's shape: the mark of a call that the provider runs itself was among its metadata, and the name
/// that a V2 log knows it by was among the fields of that dialect.
pub(crate) fn part(part: &mut Part) {
    if !part.extra.is_empty()
        && part.wire.is_none()
        && part.extra.field(V2, "id").is_some_and(Value::is_string)
    {
        part.wire = part.extra.take(V2, "id").and_then(|name| name.as_str().map(str::to_owned));
    }
    if let PartKind::Tool { hosted, metadata: Some(metadata), .. } = &mut part.kind
        && !*hosted
        && metadata.get(EXECUTED) == Some(&Value::Bool(true))
    {
        // V1 gets the mark after everything else. Where it was in another place, that is kept for V1 as it was.
        if metadata.keys().next_back().is_none_or(|last| last != EXECUTED) {
            keep(&mut part.extra, metadata);
        }
        *hosted = true;
        metadata.shift_remove(EXECUTED);
        if metadata.is_empty()
            && let PartKind::Tool { metadata, .. } = &mut part.kind
        {
            *metadata = None;
        }
    }
}

fn keep(extra: &mut Extra, metadata: &Map) {
    extra.put(V1, "metadata", metadata.clone().into());
}

/// How a promoted prompt had been delivered, where its entry still says so.
pub(crate) fn delivery(extra: &Extra) -> Delivery {
    match extra.field(V2, "delivery").and_then(Value::as_str) {
        Some("queue") => Delivery::Queue,
        _ => Delivery::Steer,
    }
}

/// Brings an entry to today's shape: the digest of a prompt, and what a call saw of files, rode along.
pub(crate) fn entry(entry: &mut Entry) {
    match &mut entry.body {
        Body::User(user) => digest(user, &mut entry.extra),
        Body::ToolResult { result } => seen(result),
        _ => {}
    }
}

/// Takes the digest of a prompt from what rode along.
pub(crate) fn digest(user: &mut User, extra: &mut Extra) {
    if extra.get(OWN).is_none() || user.digest.is_some() {
        return;
    }
    match extra.take(OWN, "request") {
        Some(Value::String(digest)) => user.digest = Some(digest),
        Some(other) => extra.put(OWN, "request", other),
        None => {}
    }
}

/// Takes what a call saw of files from what rode along.
fn seen(result: &mut ToolResult) {
    let kept = result.extra.field(OWN, "seen");
    if let Some(Ok(seen)) = kept.map(BTreeMap::<String, Option<SeenFile>>::deserialize) {
        result.extra.take(OWN, "seen");
        result.seen = seen;
    }
}

/// Brings an event to today's shape: the same mark was among the metadata of a `tool.called` of version 1.
pub(crate) fn event(event: &mut Event) {
    if let Event::ToolCalled { hosted, metadata, .. } = event
        && !*hosted
        && let Some(map) = metadata
        && map.get(EXECUTED) == Some(&Value::Bool(true))
    {
        *hosted = true;
        map.shift_remove(EXECUTED);
        if map.is_empty() {
            *metadata = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::finish::{Finish, Trigger};
    use crate::request::CallRef;
    use crate::session::Session;
    use crate::subject::{EventPayload, Subject, SubjectKind};
    use crate::tree::{Node, Tree};
    use crate::{EntryId, PartId, SessionId};

    // Each literal is what the version before wrote, byte for byte.

    fn read(json: &str) -> Event {
        let EventPayload { event, subject } = serde_json::from_str(json).unwrap();
        assert_eq!(subject, None, "earlier records said nothing of it");
        let again = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&again).unwrap(), event, "{again}");
        event
    }

    fn failed(error: &str) -> Fault {
        let json = format!(r#"{{"step.failed":{{"entry":"msg_1","error":{error}}}}}"#);
        let Event::StepFailed { error, resumes: false, .. } = read(&json) else { panic!("{json}") };
        error
    }

    #[test]
    fn every_fault_that_the_engine_wrote() {
        let plain = |kind, message: &str| Fault::new(kind, message);
        assert_eq!(
            failed(r#"{"name":"MessageAbortedError","data":{"message":"Aborted"}}"#),
            plain(FaultKind::Aborted, "Aborted")
        );
        let cut = r#"{"name":"MessageAbortedError","data":{"message":"The server ended while this answer was being written."}}"#;
        assert_eq!(failed(cut), plain(FaultKind::CutOff, CUT_OFF));
        assert_eq!(
            failed(r#"{"name":"UnknownError","data":{"message":"no"}}"#),
            plain(FaultKind::Internal, "no")
        );
        assert_eq!(
            failed(r#"{"name":"ProviderAuthError","data":{"message":"no","providerID":"openai"}}"#),
            plain(FaultKind::Authentication { provider: "openai".to_owned() }, "no")
        );
        let api = r#"{"name":"APIError","data":{"message":"busy","statusCode":529,"isRetryable":true,"responseHeaders":{"a":"1","retry-after":"2"},"responseBody":"{}","metadata":{"url":"https://api.example.com"}}}"#;
        let expected = ApiFault {
            status: Some(529),
            retryable: Some(true),
            headers: Some([("a", "1"), ("retry-after", "2")].map(|(k, v)| (k.into(), v.into())).into()),
            body: Some("{}".to_owned()),
            url: Some("https://api.example.com".to_owned()),
        };
        assert_eq!(failed(api), plain(FaultKind::Api(Box::new(expected)), "busy"));
    }

    #[test]
    fn faults_of_imports_keep_what_came_where_the_types_are_not_enough() {
        let auth = r#"{"name":"ProviderAuthError","data":{"providerID":"p","message":"no"}}"#;
        let fault = failed(auth);
        assert_eq!(fault.kind, FaultKind::Authentication { provider: "p".to_owned() });
        assert_eq!(fault.came.unwrap().to_string(), auth, "the keys stand in another order");
        let odd = r#"{"name":"provider.overloaded","data":{"message":"busy","more":[1]}}"#;
        let fault = failed(odd);
        assert_eq!((&fault.kind, fault.message.as_deref()), (&FaultKind::Imported, Some("busy")));
        assert_eq!(fault.came.unwrap().to_string(), odd);
        let unsorted = r#"{"name":"APIError","data":{"message":"busy","responseHeaders":{"b":"1","a":"2"}}}"#;
        let more = r#"{"name":"APIError","data":{"message":"busy","metadata":{"url":"/","method":"GET"}}}"#;
        let nobody = r#"{"name":"ProviderAuthError","data":{"message":"no"}}"#;
        for came in [unsorted, more, nobody] {
            assert_eq!(failed(came).came.unwrap().to_string(), came);
        }
        let filtered = failed(r#"{"name":"ContentFilterError","data":{"message":"no"}}"#);
        assert_eq!(filtered, Fault::new(FaultKind::ContentFilter, "no"));
        let tried = failed(r#"{"name":"StructuredOutputError","data":{"message":"no","retries":2}}"#);
        assert_eq!(tried, Fault::new(FaultKind::StructuredOutput { retries: Some(2) }, "no"));
        let empty = failed(r#"{"name":"MessageOutputLengthError","data":{}}"#);
        assert_eq!(empty, Fault { kind: FaultKind::OutputLength, message: None, came: None });
        let compaction = r#"{"compaction.failed":{"entry":"msg_1","error":{"name":"ContextOverflowError","data":{"message":"long","responseBody":"{}"}}}}"#;
        let Event::CompactionFailed { error, .. } = read(compaction) else { panic!() };
        let kind = FaultKind::ContextOverflow { body: Some("{}".to_owned()) };
        assert_eq!(error, Fault::new(kind, "long"));
    }

    #[test]
    fn calls_that_the_provider_ran() {
        let started = r#"{"part.started":{"entry":"msg_1","part":{"id":"prt_1","kind":{"tool":{"call":"c","tool":"web_search","state":{"pending":{"input":{},"raw":""}},"metadata":{"anthropic":{"x":1},"providerExecuted":true}}}}}}"#;
        let Event::PartStarted { part, .. } = read(started) else { panic!() };
        let PartKind::Tool { hosted, metadata, .. } = &part.kind else { panic!() };
        assert_eq!(
            (*hosted, metadata.clone().map(Value::Object)),
            (true, Some(json!({"anthropic": {"x": 1}})))
        );
        assert!(part.extra.is_empty() && part.kind.is_hosted());
        let called = r#"{"tool.called":{"entry":"msg_1","part":"prt_1","input":{"q":1},"metadata":{"providerExecuted":true}}}"#;
        let Event::ToolCalled { hosted, metadata, .. } = read(called) else { panic!() };
        assert_eq!((hosted, metadata), (true, None));
        let local = r#"{"tool.called":{"entry":"msg_1","part":"prt_1","input":{},"metadata":{"providerExecuted":false}}}"#;
        let Event::ToolCalled { hosted, metadata, .. } = read(local) else { panic!() };
        assert_eq!((hosted, metadata.unwrap().len()), (false, 1));
        let imported = r#"{"id":"prt_1","kind":{"tool":{"call":"c","tool":"t","state":{"running":{"input":{},"start":1}},"metadata":{"providerExecuted":true,"b":2}}}}"#;
        let part: Part = serde_json::from_str(imported).unwrap();
        let PartKind::Tool { hosted: true, metadata: Some(metadata), .. } = &part.kind else {
            panic!("{part:?}")
        };
        assert_eq!(metadata.keys().collect::<Vec<_>>(), ["b"]);
        let kept = part.extra.field("v1", "metadata").unwrap().to_string();
        assert_eq!(kept, r#"{"providerExecuted":true,"b":2}"#, "V1 sees it where it was");
    }

    #[test]
    fn words_and_names_in_entries_and_parts() {
        let imported = r#"{"session.imported":{"dialect":"opencode","seed":{"nodes":[{"entry":{"id":"msg_1","time":1,"body":{"assistant":{"finish":"tool-calls","error":{"name":"MessageAbortedError","data":{}},"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"cost":0}}},"parts":[{"id":"prt_1","kind":{"retry":{"attempt":1,"error":{"name":"APIError","data":{"message":"x","isRetryable":true}},"created":2}}},{"id":"prt_2","kind":{"retry":{"attempt":2,"error":"odd","created":3}}},{"id":"prt_3","kind":{"step-finish":{"reason":"end_turn","tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"cost":0}}},{"id":"prt_4","kind":{"text":{"text":"a"}},"extra":{"v2":{"id":"txt-0"}}}]},{"entry":{"id":"msg_2","time":1,"body":{"compaction":{"reason":"manual"}}}}]}}}"#;
        let Event::SessionImported { seed, .. } = read(imported) else { panic!() };
        let [first, second] = seed.nodes.as_slice() else { panic!() };
        let assistant = first.entry.body.assistant().unwrap();
        assert_eq!(assistant.finish, Some(Finish::ToolCalls));
        assert_eq!(assistant.error, Some(Fault { kind: FaultKind::Aborted, message: None, came: None }));
        let kinds: Vec<&PartKind> = first.parts.iter().map(|part| &part.kind).collect();
        let [PartKind::Retry { error: api, .. }, PartKind::Retry { error: odd, .. }, finish, _] =
            kinds.as_slice()
        else {
            panic!("{kinds:?}")
        };
        let retryable = ApiFault { retryable: Some(true), ..ApiFault::default() };
        assert_eq!(*api, Fault::new(FaultKind::Api(Box::new(retryable)), "x"));
        assert_eq!(odd.came.as_deref(), Some(&json!("odd")));
        assert!(
            matches!(finish, PartKind::StepFinish { reason: Finish::Imported(word), .. } if word == "end_turn")
        );
        assert_eq!((first.parts[3].wire.as_deref(), first.parts[3].extra.is_empty()), (Some("txt-0"), true));
        let Body::Compaction(compaction) = &second.entry.body else { panic!() };
        assert_eq!(compaction.reason, Some(Trigger::Manual));
    }

    #[test]
    fn what_rode_along_has_types() {
        let admitted = r#"{"prompt.admitted":{"item":{"id":"msg_1","time":1,"delivery":"steer","user":{"agent":"build"},"parts":[],"extra":{"everturn":{"request":"abc"},"v1":{"x":1}}}}}"#;
        let Event::PromptAdmitted { item } = read(admitted) else { panic!() };
        assert_eq!((item.user.digest.as_deref(), item.extra.get(OWN)), (Some("abc"), None));
        assert_eq!(item.extra.field("v1", "x"), Some(&json!(1)), "the rest rides along");
        let row = r#"{"id":"msg_1","time":1,"body":{"user":{"agent":"build"}},"extra":{"everturn":{"request":"abc"}}}"#;
        let entry: Entry = serde_json::from_str(row).unwrap();
        let Body::User(user) = &entry.body else { panic!() };
        assert_eq!((user.digest.as_deref(), entry.extra.is_empty()), (Some("abc"), true));
        let settled = r#"{"tool.settled":{"entry":{"id":"msg_2","time":1,"body":{"tool_result":{"result":{"call":"c","tool":"read","outcome":"completed","output":"a","extra":{"everturn":{"seen":{"/a":{"fingerprint":"f","shown":true},"/b":null}}}}}}}}}"#;
        let Event::ToolSettled { entry, .. } = read(settled) else { panic!() };
        let Body::ToolResult { result } = &entry.body else { panic!() };
        let view = SeenFile { fingerprint: "f".to_owned(), shown: true };
        let seen = BTreeMap::from([("/a".to_owned(), Some(view)), ("/b".to_owned(), None)]);
        assert_eq!((&result.seen, result.extra.is_empty()), (&seen, true));
    }

    #[test]
    fn requests_named_no_part() {
        let asked = r#"{"request.asked":{"request":{"id":"per_1","time":1,"ask":"permission","permission":"bash","patterns":["ls"],"always":[],"metadata":{},"call":{"entry":"msg_1","call":"c"}}}}"#;
        let Event::RequestAsked { request } = read(asked) else { panic!() };
        assert_eq!(request.call, Some(CallRef { entry: "msg_1".into(), call: "c".to_owned(), part: None }));
        let answered = r#"{"request.answered":{"id":"per_1","reply":"once"}}"#;
        let event = read(answered);
        assert!(matches!(event, Event::RequestAnswered { call: None, .. }));
        assert!(event.touches().whole, "only the request knows its call");
    }

    #[test]
    fn a_promotion_is_completed_from_its_entry() {
        let promoted = r#"{"prompt.promoted":{"id":"msg_1","parent":null}}"#;
        let event = read(promoted);
        let mut tree = Tree::new(Session::new(SessionId::new("ses_1"), "p", "/", "t", "1", 1));
        let mut entry = Entry::new(EntryId::new("msg_1"), None, 7, Body::User(User::default()));
        entry.extra.put("v2", "delivery", "queue".into());
        tree.insert(Node::new(entry, vec![Part::new(PartId::new("prt_1"), PartKind::text("hello"))]));
        let Some(Subject { kind: Some(SubjectKind::Prompt { item }), .. }) = Subject::of(&event, &tree)
        else {
            panic!("nothing was found")
        };
        assert_eq!((item.delivery, item.time, item.parts.len()), (Delivery::Queue, 7, 1));
    }

    #[test]
    fn names_of_earlier_versions_are_known() {
        let event = Event::StepFailed {
            entry: "msg_1".into(),
            error: Fault::internal("x"),
            resumes: false,
            remains: Box::default(),
        };
        assert_eq!(event.stored_name(), "step.failed.2");
        let known = ["step.failed.1", "step.failed.2"];
        let unknown = ["step.failed.3", "step.failed.0", "step.failed", "step.ended.1", "step.failed.01"];
        assert!(known.iter().all(|name| event.is_stored_as(name)));
        assert!(!unknown.iter().any(|name| event.is_stored_as(name)));
    }
}
